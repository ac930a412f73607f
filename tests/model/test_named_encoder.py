"""`policy.model.encoder`: by name, with options, for parts of a dict, and of one's own; and its mistakes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ding_lite.config import compile_config
from ding_lite.model import DQN, VAC, FCEncoder, IMPALAConvEncoder, create_encoder
from ding_lite.run.setup import prepare_run
from ding_lite.utils import ENCODER_REGISTRY, ConfigError
from ding_lite.utils.registry import EncoderChoice
from tests.model.models import HYBRID, HYBRID_MODELS, MODELS, build


def compile_model(policy: str = "dqn", **model: Any) -> Any:
    main = dict(env=dict(env_id="CartPole-v1"), policy=dict(model=model))
    return compile_config((main, dict(policy=dict(type=policy)))).policy.model


@pytest.mark.parametrize("name", MODELS)
def test_every_model_builds_the_encoder_that_is_named(name: str) -> None:
    encoder = dict(type="fc", res_block=True)
    model = build(name, obs_shape=[5], encoder_hidden_size_list=[4, 4], encoder=encoder)
    found = [module for module in model.modules() if isinstance(module, FCEncoder)]
    assert found
    assert all(len(each) == 3 for each in found)  # a layer and two blocks
    others = [child for path, child in model.named_modules() if path.endswith("encoder")]
    assert all(isinstance(each, FCEncoder) for each in others)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_takes_shapes_as_a_number_a_list_or_a_tuple(name: str) -> None:
    states = []
    for obs, action in ((5, 3), ([5], [3]), ((5,), (3,))):
        torch.manual_seed(0)
        kind: Any = type(obs)
        parts = HYBRID if kind is int else {key: kind([size]) for key, size in HYBRID.items()}
        shape = parts if name in HYBRID_MODELS else action
        states.append(build(name, obs_shape=obs, action_shape=shape).state_dict())
    for state in states[1:]:
        torch.testing.assert_close(state, states[0], rtol=0, atol=0)


def test_shapes_in_a_config_may_be_lists() -> None:
    main = dict(env=dict(env_id="CartPole-v1"), policy=dict(model=dict(obs_shape=(4,), action_shape=[2])))
    setup = prepare_run((main, dict(policy=dict(type="dqn"))), 0, None, None, [], pipeline="serial_pipeline")
    assert (setup.cfg.policy.model.obs_shape, setup.cfg.policy.model.action_shape) == (4, 2)


def test_options_of_a_name_are_keys_that_are_checked() -> None:
    kernels = dict(type="conv", kernel_size=[4, 3], stride=(2, 1), padding=[1, 0], layer_norm=True)
    assert compile_model(encoder=kernels).encoder == dict(kernels, stride=[2, 1])
    assert compile_model(encoder="impala").encoder == "impala"
    assert compile_model("impala", encoder=dict(type="impala", nblock=1)).encoder.nblock == 1
    assert "encoder" not in compile_model()


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        ("impla", r"Unknown policy\.model\.encoder type 'impla'\. Did you mean 'impala'\?"),
        (dict(type="cnv"), r"Unknown policy\.model\.encoder type 'cnv'\. Did you mean 'conv'\?"),
        (dict(layer_norm=True), r"Unknown policy\.model\.encoder type ''\. Registered: conv, fc, impala, simba"),
        (3, r"Unknown policy\.model\.encoder type '3'"),
        (
            dict(type="conv", kernel_sizes=[3]),
            r"Unknown key 'policy\.model\.encoder\.kernel_sizes'\. Did you mean .*size'",
        ),
        (dict(type="fc", res_blok=True), r"Unknown key .* Did you mean 'policy\.model\.encoder\.res_block'"),
        (dict(type="fc", res_block=1), r"policy\.model\.encoder\.res_block: expected bool, got int 1"),
        (dict(type="conv", stride=[2, 0]), r"policy\.model\.encoder\.stride: expected at least 1, got 0"),
        (dict(type="conv", padding=[-1]), r"policy\.model\.encoder\.padding: expected at least 0, got -1"),
    ],
)
def test_a_mistake_is_found_when_the_config_compiles(encoder: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compile_model(encoder=encoder)


def test_parts_of_a_dict_get_the_encoder_that_fits_them() -> None:
    shape = dict(camera=[3, 16, 16], inner=dict(front=[1, 16, 16], joints=5))
    encoder: Any = create_encoder(shape, [4, 4, 4, 8], "relu", dict(type="impala", nblock=1))
    assert sum(isinstance(module, IMPALAConvEncoder) for module in encoder.modules()) == 2
    obs = dict(camera=torch.rand(2, 3, 16, 16), inner=dict(front=torch.rand(2, 1, 16, 16), joints=torch.rand(2, 5)))
    assert encoder(obs).shape == (2, 8)


class Wide(nn.Module):
    """Returns twice the features that it should; a batch's statistics must not depend on how that was found."""

    def __init__(self, obs_shape: Any, hidden_size_list: list[int], activation: str, factor: int = 2) -> None:
        super().__init__()
        self.layer = nn.Linear(4, factor * hidden_size_list[-1])
        self.norm = nn.BatchNorm1d(factor * hidden_size_list[-1])

    def forward(self, obs: Any) -> Tensor:
        return self.norm(self.layer(obs["a"] if isinstance(obs, dict) else obs))


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENCODER_REGISTRY, "encoder_test_wide", Wide)


@pytest.mark.usefixtures("wide")
def test_features_of_another_size_are_refused_and_the_trial_leaves_no_trace() -> None:
    message = r"'encoder_test_wide' must return features \[B, 8\], .* got \[1, 16\] for one observation"
    with pytest.raises(ConfigError, match=message):
        DQN(4, 2, [8], encoder="encoder_test_wide")
    encoder: EncoderChoice = dict(type="encoder_test_wide", factor=1)
    for obs_shape in (4, dict(a=4, b=[1, 8, 8])):  # an encoder without `obs_dims` encodes a dict as a whole
        model: Any = VAC(obs_shape, 2, encoder_hidden_size_list=[8], encoder=encoder)
        assert isinstance(model.encoder, Wide)
        assert model.encoder.training
        assert model.encoder.norm.num_batches_tracked == 0
