"""What the built-in models share: DI-engine's arguments by position, and the sizes of their heads."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ding_lite.model import MLP, NoisyLinear
from ding_lite.utils import MODEL_REGISTRY, ConfigError
from tests.model.models import HYBRID, HYBRID_MODELS, MODELS, backward, build, run

HEADS = ("bdq", "c51dqn", "discrete_bc", "dqn", "drqn", "fqf", "iqn", "pdqn", "pg", "qrdqn", "rainbowdqn", "sqn")
VALUES = "obs_shape action_shape encoder_hidden_size_list"
HEAD = "head_hidden_size head_layer_num"
TWO_HEADS = "actor_head_hidden_size actor_head_layer_num critic_head_hidden_size critic_head_layer_num"
# The first arguments of the models in DI-engine 0.5, in their order. Those after the bar are known here by name only.
ARGUMENTS = {
    "acer": f"{VALUES} | {TWO_HEADS} activation norm_type",
    "bdq": "obs_shape num_branches action_bins_per_branch layer_num a_layer_num v_layer_num encoder_hidden_size_list | "
    "head_hidden_size norm_type activation",
    "c51dqn": f"{VALUES} {HEAD} activation norm_type | v_min v_max n_atom",
    "continuous_bc": "obs_shape action_shape action_space actor_head_hidden_size actor_head_layer_num | activation "
    "norm_type",
    "continuous_qac": f"obs_shape action_shape action_space twin_critic {TWO_HEADS} activation norm_type",
    "discrete_bc": f"{VALUES} dueling {HEAD} activation norm_type",
    "discrete_qac": f"obs_shape action_shape twin_critic {TWO_HEADS} activation norm_type",
    "dqn": f"{VALUES} dueling {HEAD} activation norm_type",
    "drqn": f"{VALUES} dueling {HEAD} | lstm_type activation norm_type res_link",
    "fqf": f"{VALUES} {HEAD} | num_quantiles quantile_embedding_size activation norm_type",
    "iqn": f"{VALUES} {HEAD} | num_quantiles quantile_embedding_size activation norm_type",
    "pdqn": f"{VALUES} dueling {HEAD} | activation norm_type multi_pass action_mask",
    "pg": f"obs_shape action_shape action_space encoder_hidden_size_list {HEAD} | activation norm_type",
    "qac_dist": f"obs_shape action_shape action_space critic_head_type | {TWO_HEADS} activation norm_type v_min v_max "
    "n_atom",
    "qrdqn": f"{VALUES} {HEAD} | num_quantiles activation norm_type",
    "rainbowdqn": f"{VALUES} {HEAD} activation norm_type | v_min v_max n_atom",
    "sqn": f"{VALUES} dueling {HEAD} activation norm_type",
    "vac": f"obs_shape action_shape action_space share_encoder encoder_hidden_size_list | {TWO_HEADS} activation "
    "norm_type sigma_type fixed_sigma_value bound_type",
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_the_arguments_are_those_of_di_engine(name: str) -> None:
    cls, (first, _, others) = MODEL_REGISTRY.find(name), ARGUMENTS[name].partition(" | ")
    parameters = inspect.signature(cls).parameters
    assert [*parameters][: len(first.split())] == first.split()
    assert {*others.split()} <= {*parameters}
    shape = HYBRID if name in HYBRID_MODELS else 3
    values = dict(obs_shape=4, action_shape=shape, encoder_hidden_size_list=[5, 6], num_branches=2, norm_type="LN")
    values |= dict(
        action_bins_per_branch=3, activation="tanh", **{key: 2 for key in parameters if key.endswith("_num")}
    )
    if name in ("continuous_qac", "qac_dist", "continuous_bc"):
        values["action_space"] = "regression"
    given = {key: values.get(key, parameters[key].default) for key in first.split()}
    by_name, by_position = cls(**given), cls(*given.values())  # what the signature says is true
    assert str(by_name) == str(by_position)
    with pytest.raises(TypeError, match="unknown_argument"):
        cls(**given, unknown_argument=1)


def head_sizes(model: nn.Module) -> list[list[tuple[int, int]]]:
    """Return the sizes (output, input) of the layers of each head."""
    heads: list[Any] = [mlp for path, mlp in model.named_modules() if isinstance(mlp, MLP) and "encoder" not in path]
    return [[tuple(layer.weight.shape) for layer in mlp] for mlp in heads]


@pytest.mark.parametrize("name", HEADS)
def test_the_size_of_a_heads_hidden_layers_is_free_and_by_default_that_of_its_inputs(name: str) -> None:
    options: dict[str, Any] = dict(obs_shape=5, encoder_hidden_size_list=[6, 4])
    options["layer_num" if name == "bdq" else "head_layer_num"] = 2
    torch.manual_seed(0)
    model = build(name, head_hidden_size=9, activation="tanh", **options)
    inputs = {4, 7} if name == "pdqn" else {4}  # 4 features; PDQN's values also depend on 3 arguments
    assert {first[1] for first, *_ in head_sizes(model)} == inputs
    assert all((first[0], second) == (9, (9, 9)) for first, second, _ in head_sizes(model))
    backward(run(model, torch.randn(3, 5)))
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in model.parameters())
    assert all(first[0] == first[1] for first, *_ in head_sizes(build(name, **options)))


def draw_image() -> Tensor:
    return torch.randint(256, (3, 3, 44, 44), dtype=torch.uint8)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_images_is_its_state_and_leaves_the_image_as_it_is(name: str) -> None:
    size: Any = dict(obs_shape=[3, 44, 44], encoder_hidden_size_list=[4, 4, 4, 8])
    model, other = (build(name, **size).to(memory_format=torch.channels_last) for _ in range(2))  # type: ignore[call-overload]  # torch's hints lack it
    other.load_state_dict(model.state_dict())
    image = draw_image()
    before, results = image.clone(), []
    for each in (model, other):
        torch.manual_seed(0)
        results.append(run(each, image))
    torch.testing.assert_close(*results, rtol=0, atol=0)
    assert torch.equal(image, before)


@pytest.mark.parametrize("name", MODELS)
def test_an_unknown_mode_is_refused_and_networks_with_modes_share_nothing(name: str) -> None:
    model = build(name, obs_shape=4)
    modes = getattr(model, "modes", None)
    if modes is None:
        assert name not in ("acer", "vac")
        return
    with pytest.raises(ValueError, match=f"{type(model).__name__}: expected a mode of {', '.join(modes)}, got 'fly'"):
        model(torch.zeros(1, 4), mode="fly")
    owned = [{id(parameter) for parameter in child.parameters()} for child in model.children()]
    assert sum(map(len, owned)) == len(set().union(*owned))


@pytest.mark.parametrize(
    "name", [name for name in MODELS if "noise" in inspect.signature(MODEL_REGISTRY.find(name)).parameters]
)
def test_noise_is_in_every_head_and_in_no_encoder(name: str) -> None:
    model = build(name, obs_shape=4, noise=True)
    for path, mlp in model.named_modules():
        if isinstance(mlp, MLP):
            assert all(isinstance(layer, NoisyLinear) == ("encoder" not in path) for layer in mlp)
    assert not any(isinstance(layer, NoisyLinear) for layer in build(name, obs_shape=4).modules())


# Models and the modules that their inputs pass through in a mode, or without modes.
CHAINS = [
    ("bc", "", "logit", "encoder head"),
    ("pg", "", "logit", "encoder head"),
    ("dqn", "", "logit", "encoder head"),
    ("discrete_bc", "", "logit", "encoder head"),
    ("vac", "compute_actor", "logit", "actor_encoder actor_head"),
    ("vac", "compute_critic", "value", "critic_encoder critic_head"),
    ("acer", "compute_actor", "logit", "actor.encoder actor.head"),
    ("acer", "compute_critic", "q_value", "critic.encoder critic.heads.0"),
    ("discrete_qac", "compute_actor", "logit", "actor.encoder actor.head"),
    ("discrete_qac", "compute_critic", "q_value", "critic.encoder critic.heads.0"),
    ("continuous_qac", "compute_critic", "q_value", "critic.encoder critic.heads.0"),
]


@pytest.mark.parametrize(("name", "mode", "key", "chain"), CHAINS)
def test_a_network_is_its_encoders_and_its_heads_layers(name: str, mode: str, key: str, chain: str) -> None:
    options: dict[str, Any] = {"dqn": dict(dueling=False), "discrete_bc": dict(dueling=False)}.get(name, {})
    options |= dict(share_encoder=False) if name == "vac" else {}
    model = build(name, obs_shape=4, encoder_hidden_size_list=[8, 6], activation="tanh", **options)
    obs, action = torch.randn(5, 4), torch.rand(5, 3)
    x = obs
    layers = [layer for part in chain.split() for layer in model.get_submodule(part).children()]
    assert len(layers) >= 3
    for number, layer in enumerate(layers):
        if name == "continuous_qac" and number == 2:  # after the encoder
            x = torch.cat([x, action], -1)
        x = layer(x) if number == len(layers) - 1 else torch.tanh(layer(x))
    inputs: Any = {"obs": obs, "action": action} if name == "continuous_qac" else obs
    output = model(inputs, mode=mode)[key] if mode else model(inputs)[key]
    torch.testing.assert_close(output.reshape(x.shape) if output.ndim < x.ndim or len(output) == 1 else output, x)


ONE = [name for name in MODELS if name not in ("bc", "bdq", "pg", "vac", *HYBRID_MODELS)]  # an action is one choice
NO_LIST = "action_shape: expected a list of numbers of options, got "
NO_DICT = "action_shape of a hybrid action must be a dict of action_type_shape and action_args_shape, got "
PAIR = "num_branches together with action_bins_per_branch"
# Arguments that make no network of models, and a part of the error.
REFUSED: list[tuple[list[str], dict[str, Any], str]] = [
    (
        list(MODELS),
        dict(norm_type="BN"),
        r"norm_type must be one of None, LN, got 'BN'\. Its statistics .* differ betw",
    ),
    (ONE, dict(action_shape=[2, 3]), r"policy\.model\.action_shape.* must be a whole number, got \[2, 3\]"),
    (["dqn"], dict(obs_shape={"action_mask": 3}), "a Dict with an action_mask alone"),
    (["bdq"], dict(action_shape=None), f"expected action_shape, or {PAIR}"),
    (["bdq"], dict(action_shape=None, num_branches=2), PAIR),
    (["bdq"], dict(action_bins_per_branch=2, action_shape=[2, 2]), PAIR),
    (
        ["bdq"],
        dict(num_branches=2, action_bins_per_branch=4, action_shape=[4, 3]),
        r"num_branches=2 and action_bins_per_branch=4 do not describe .* \[4, 3\]: leave both out",
    ),
    (["bdq"], dict(action_shape=[[2, 3], [4, 5]]), "expected a list of numbers of options"),
    *((["pdqn", "hybrid_qac"], dict(action_shape=shape), NO_DICT) for shape in (3, [3, 2], {"action_type_shape": 3})),
    (
        ["pdqn"],
        dict(action_shape=dict(action_type_shape=[3, 2], action_args_shape=2)),
        r"policy\.model\.action_shape\.action_type_shape must be a whole number, got \[3, 2\]",
    ),
    (["pdqn"], dict(multi_pass=True), "needs an action_mask of 2 lists, one for each type, of 3 numbers"),
    (["pdqn"], dict(multi_pass=True, action_mask=[[1, 0, 0]]), "needs an action_mask of 2 lists"),
    (
        ["continuous_qac"],
        dict(action_space="hybrid"),
        r"must be one of regression, .* got 'hybrid'\. Hybrid actions have",
    ),
    (["continuous_qac"], dict(action_space="regresion"), r"got 'regresion'\. Did you mean 'regression'\?"),
    (["vac"], dict(action_space="discret"), r"action_space .*discrete, multi_discrete, continuous, hybrid.*Did you"),
    (
        ["vac"],
        dict(sigma_type="happy"),
        r"policy\.model\.sigma_type .*independent, scalar, conditioned, fixed, got 'happy'",
    ),
    (["vac"], dict(action_space="continuous", sigma_type="fixed", init_sigma=0.5), "together with sigma_type='indep"),
    (["vac"], dict(action_space="continuous", init_sigma=0.0), r"policy\.model\.init_sigma=0\.0: expected at least"),
    (["vac"], dict(bound_type="relu"), r"policy\.model\.bound_type .*tanh, None, got 'relu'"),
    (["vac"], dict(action_shape=HYBRID), r"action_shape of a discrete action .*whole number.*action_type_shape"),
    (["vac"], dict(action_space="multi_discrete"), f"{NO_LIST}3"),
    (["vac"], dict(action_shape=[2, [3, 4]]), rf"{NO_LIST}\[2, \[3, 4\]\]"),
    (["vac"], dict(action_space="hybrid"), f"{NO_DICT}3"),
    (["vac"], dict(activation="sine"), r"policy\.model\.activation"),
]


@pytest.mark.parametrize(("names", "arguments", "message"), REFUSED)
def test_what_makes_no_network_is_refused(names: list[str], arguments: dict[str, Any], message: str) -> None:
    for name in names:
        with pytest.raises(ConfigError, match=message):
            build(name, **{"obs_shape": 4, **arguments})
