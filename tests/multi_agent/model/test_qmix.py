from __future__ import annotations

from typing import Any

import pytest
import torch

from ding_lite.model import QMix
from ding_lite.multi_agent.model.agents import fold_agents, of_agent
from ding_lite.utils.registry import ConfigError

T, B, M, F, A, G = 5, 3, 2, 4, 3, 6


def observe(masked: bool = True) -> dict[str, Any]:
    obs = {"agent_state": torch.randn(T, B, M, F), "global_state": torch.randn(T, B, G)}
    mask = torch.rand(T, B, M, A) < 0.5
    mask[..., 0] |= ~mask.any(-1)
    return obs | ({"action_mask": mask} if masked else {})


@pytest.mark.parametrize("lstm_type", ["gru", "pytorch", None])
def test_each_agent_has_the_values_that_the_network_gives_it_alone(lstm_type: Any) -> None:
    model, obs = QMix(M, F, A, G, [8], lstm_type=lstm_type), observe()
    start, final = torch.rand(T, B) < 0.3, torch.tensor([1, 7])
    state = {name: torch.randn(B, M, 8) for name in (("h", "c") if lstm_type == "pytorch" else ("h",))}
    output = model(obs, prev_state=state, episode_start=start, final_index=final)
    for m in range(M):
        number = torch.eye(M)[m].expand(T, B, M)
        own = {"agent_state": torch.cat([obs["agent_state"][:, :, m], number], -1)}
        own["action_mask"] = obs["action_mask"][:, :, m]
        if lstm_type is None:
            alone = model.q_network({key: part.flatten(0, 1) for key, part in own.items()})
            torch.testing.assert_close(output["logit"][:, :, m].flatten(0, 1), alone["logit"])
            continue
        before = {name: part[:, m] for name, part in state.items()}
        alone = model.q_network(own, prev_state=before, episode_start=start, final_index=final)
        torch.testing.assert_close(output["logit"][:, :, m], alone["logit"])
        for key in ("next_state", "final_state"):
            torch.testing.assert_close({name: part[:, m] for name, part in output[key].items()}, alone[key])
    assert torch.equal(output["logit"].isneginf(), ~obs["action_mask"])


def test_the_mixture_rises_with_the_value_of_each_agent_and_depends_on_the_state() -> None:
    model, state, q = QMix(M, F, A, G, [8]), torch.randn(50, G), torch.randn(50, M, requires_grad=True)
    total = model(state, mode="mix", q_XM=q)["total_q"]
    (slope,) = torch.autograd.grad(total.sum(), q)
    assert total.shape == (50,)
    assert (slope >= 0).all()
    assert (slope > 0).any()
    assert len(model(state, mode="mix", q_XM=torch.zeros(50, M))["total_q"].unique()) == 50


def test_vdn_sums_and_needs_neither_a_state_nor_a_mask() -> None:
    model, obs = QMix(M, F, A, mixer=False), observe(masked=False)
    del obs["global_state"]
    q = model(obs)["logit"].amax(-1)
    assert torch.equal(model(None, mode="mix", q_XM=q)["total_q"], q.sum(-1))


def test_images_have_no_agent_id() -> None:
    with pytest.raises(ConfigError, match=r"agent_id=True adds .* but the agents observe \[3, 12, 12\]: set"):
        QMix(M, [3, 12, 12], A, G)


def test_the_global_state_is_that_of_all_agents_or_each_has_one() -> None:
    obs = {"agent_state": torch.randn(B, M, F), "global_state": torch.randn(B, G)}
    own = obs | {"global_state": obs["global_state"][:, None].repeat(1, M, 1)}
    folded = fold_agents(obs, 0, agent_id=False)
    assert torch.equal(folded["global_state"], fold_agents(own, 0, agent_id=False)["global_state"])
    assert torch.equal(folded["agent_state"].view(B, M, F), obs["agent_state"])


def test_of_a_global_state_for_each_agent_all_see_the_first() -> None:
    obs = {"agent_state": torch.arange(12.0).view(2, 3, 2), "global_state": torch.arange(24.0).view(2, 3, 4)}
    seen = of_agent(obs, 2)
    assert seen["agent_state"].tolist() == [[4, 5], [10, 11]]
    assert seen["global_state"].tolist() == [[0, 1, 2, 3], [12, 13, 14, 15]]
    common = {**obs, "global_state": seen["global_state"]}
    assert torch.equal(of_agent(common, 1)["global_state"], seen["global_state"])
