"""Translates a config of DI-engine into one that the classes of ding_lite know.

A key that is declared by one of the config's classes is never translated. The functions change `user`, the nested keys
that the user set, in place, and append a sentence to `notes` for every value that they translate or ignore.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ding_lite.config.checks import LOOP_KEYS
from ding_lite.config.schema import ENCODER, UNSET, Schema, config_schema, find_class, plain
from ding_lite.config.shapes import check_action_space
from ding_lite.config.user import apply_overrides, import_modules, nest
from ding_lite.di_engine.dreamer import WORLD_MODEL, is_dreamer, translate_dreamer
from ding_lite.di_engine.keys import (
    IGNORED_KEYS,
    NAMES,
    REDUNDANT_KEYS,
    RENAMED_KEYS,
    SCHEDULERS,
    given_action_spaces,
    rename_type,
)
from ding_lite.di_engine.variants import (
    NGU_SECTIONS,
    choose_variant,
    read_bco,
    read_imitation,
    read_ngu,
    read_world_model,
    translate_d4rl,
    translate_her,
)
from ding_lite.utils.key import SECTION, get_key, matches, merge_keys, pop_key, set_key, show, show_value
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError

# Sections that accept `True` or `False` for their key `use_norm`.
SWITCHES = ("env.norm_obs", "env.norm_reward")
STATE_OF_EACH = "env.special_global_state"
# Values of DI-engine's that have no counterpart. The default counts instead, and the reason.
WITHOUT_COUNTERPART = {
    "policy.eval.evaluator.eval_freq": (-1, "evaluations have an interval of iterations"),
    "reward_model.intrinsic_reward_weight": (None, "bonuses are divided by the deviation of their discounted sums"),
}
# Policies whose class in DI-engine reads policy.learn.discount_factor, and not policy.discount_factor.
LEARN_DISCOUNT = ("acer", "bcq", "coma", "cql", "d4pg", "ddpg", "edac", "impala", "iql", "madqn", "qmix", "sac", "td3")


def translate(
    pair: tuple[dict[str, Any], dict[str, Any]], overrides: Sequence[str], model_given: bool
) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """Return the nested keys of a config, in ding_lite's words; `texts` as `merge_user` does; and notes.

    `pair` is `(main_config, create_config)`, the others are arguments of `compile_config`.
    """
    user, texts, notes = translate_types(pair, overrides)
    policy_cls = find_class("policy", user)
    schema = config_schema(user, policy_cls, model_given)
    for path in given_action_spaces(user):
        check_action_space(user, policy_cls, path)
    rename_keys(user, policy_cls, schema, notes)
    schema = config_schema(user, policy_cls, model_given)
    take_loop_keys(user, policy_cls, schema)
    drop_ignored(user, "", schema, notes)
    return user, texts, notes


def translate_types(
    pair: tuple[dict[str, Any], dict[str, Any]], overrides: Sequence[str]
) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """Return what `translate` does, with all types translated, and not yet the keys."""
    notes: list[str] = []
    create = translate_create(plain(pair[1], "create_config"), notes)
    user = merge_keys(nest(create), plain(pair[0], "main_config"))
    texts = apply_overrides(user, overrides)
    translate_d4rl(user, notes)
    choose_variant(user, notes)
    read_bco(user, notes)
    translate_her(user, notes)
    translate_dreamer(user, notes)
    read_imitation(user, texts, notes)
    read_ngu(user, notes)
    read_world_model(user, notes)
    import_modules(user)
    return user, texts, notes


def translate_create(create: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """Return a `create_config` without the parts that have no effect, whose types have the names used here."""
    own = dict[str, Any]()
    for key, value in create.items():
        path = f"create_config.{key}"
        if key in NGU_SECTIONS:
            own["reward_model"] = {"type": "ngu"}
        elif isinstance(value, dict) and path in IGNORED_KEYS:
            notes.append(f"{path} is ignored: {IGNORED_KEYS[path][1]}.")
        elif key != WORLD_MODEL or not is_dreamer(create):  # the policy has its world model
            own[key] = value
    for key in ("env_manager", "replay_buffer", "policy"):
        if isinstance(own.get(key), dict) and "type" in own[key]:
            name = rename_type(key, own[key]["type"], f"create_config.{key}.type", notes)
            own[key] = own[key] | {"type": name}
    return own


def rename_keys(user: dict[str, Any], policy_cls: Any, known: Schema, notes: list[str]) -> None:
    """Replace old names of keys (`RENAMED_KEYS`), optimizers and retired environments by the current ones.

    `True` and `False` for one of the `SWITCHES` become its key `use_norm`. `known` is the schema of the config.
    """
    for path, (present, reason) in REDUNDANT_KEYS.items():
        if present in known and path not in known and pop_key(user, path) is not None:
            notes.append(f"{path} is ignored: {reason}.")
    discount, name = get_key(user, "policy.learn.discount_factor"), get_key(user, "policy.type")
    if discount and name in LEARN_DISCOUNT and pop_key(user, "policy.discount_factor") not in (None, discount):
        notes.append(f"policy.discount_factor is ignored: DI-engine's '{name}' reads policy.learn.discount_factor.")
    _replace_values(user, known, policy_cls, notes)
    # Any key of a model that is given may be set.
    free = "policy.model" in known and known["policy.model"].type is dict
    for old, new in RENAMED_KEYS.items():
        value = get_key(user, old, UNSET)
        if value is UNSET or old in known or not (new in known or (free and new.startswith("policy.model."))):
            continue
        if get_key(user, new, value) != value:
            raise ConfigError(f"{old}={value!r} contradicts {new}={get_key(user, new)!r}: set '{new}' only.")
        set_key(user, new, pop_key(user, old))
        notes.append(f"{old} is {new} here.")
    if policy_cls.multi_agent and get_key(user, "policy.multi_agent") is True:
        pop_key(user, "policy.multi_agent")  # such a policy needs no key that says so
    for path in SCHEDULERS:
        _read_scheduler(user, path, known)
    _rename_optimizer(user, notes)
    _rename_hidden_size(user, known, notes)
    if ENCODER in known or f"{ENCODER}.type" in known:
        _rename_encoder(user, notes)
    for path in SWITCHES:
        if isinstance(get_key(user, path), bool):
            set_key(user, path, {"use_norm": get_key(user, path)})


def _replace_values(user: dict[str, Any], known: Schema, policy_cls: Any, notes: list[str]) -> None:
    """Replace values that DI-engine accepts and that mean nothing here, or something else."""
    for path, (value, reason) in WITHOUT_COUNTERPART.items():
        if get_key(user, path, UNSET) == value:
            pop_key(user, path)
            notes.append(f"{path}={value} is left out: {reason}.")
    if policy_cls.learns_from == "collect" and "policy.priority" not in known and get_key(user, "policy.priority"):
        set_key(user, "policy.priority", False)  # DI-engine's on-policy classes declare it and do not read it
    if get_key(user, STATE_OF_EACH) == [True]:
        set_key(user, STATE_OF_EACH, True)  # `special_global_state = True,` is a tuple in two of DI-engine's files


def _rename_hidden_size(user: dict[str, Any], known: Schema, notes: list[str]) -> None:
    """Replace the size of the only layer of DI-engine's discriminator."""
    old, new = "reward_model.hidden_size", "reward_model.hidden_size_list"
    size = get_key(user, old)
    if matches(size, int) and new in known and old not in known:
        pop_key(user, old)
        set_key(user, new, [size])
        notes.append(f"{old}={size} is {new}=[{size}] here.")


def _rename_optimizer(user: dict[str, Any], notes: list[str]) -> None:
    """Replace DI-engine's name of an optimizer; its 'Adam' with a weight decay is AdamW."""
    path = "policy.learn.optimizer"
    name, names = get_key(user, path), NAMES["optimizer"]
    if isinstance(name, str) and name in names:
        decays = name == "Adam" and get_key(user, "policy.learn.weight_decay")
        set_key(user, path, "adamw" if decays else names[name])
        notes.append(f"{path} '{name}' {'with a weight decay ' if decays else ''}is '{get_key(user, path)}' here.")


def _read_scheduler(user: dict[str, Any], path: str, known: Schema) -> None:
    """Replace one of the `SCHEDULERS` by a schedule of the number that it multiplies."""
    lowest, number = SCHEDULERS[path]
    if path in known or number not in known or (value := pop_key(user, path)) is None:
        return
    fields = value if isinstance(value, dict) else {}
    floats = all(matches(field, float) for field in fields.values())
    if set(fields) != {"epoch_num", lowest} or not floats or fields["epoch_num"] <= 0:
        raise ConfigError(f"{path} must be dict(epoch_num=collects, {lowest}=final share), got {show_value(value)}.")
    start = get_key(user, number, known[number].default)
    if isinstance(start, dict):
        raise ConfigError(f"{path} contradicts the schedule of {number}: set only one.")
    known[number].check(number, start)
    schedule = dict(type="linear", start=start, end=start * fields[lowest], over=fields["epoch_num"], by="collect")
    set_key(user, number, schedule)


def _rename_encoder(user: dict[str, Any], notes: list[str]) -> None:
    """Replace DI-engine's switch for the encoder of IMPALA by its name."""
    model = get_key(user, "policy.model")
    if isinstance(model, dict) and isinstance(model.get("impala_cnn_encoder"), bool):
        if model.pop("impala_cnn_encoder") and model.setdefault("encoder", "impala") != "impala":
            raise ConfigError(f"policy.model.impala_cnn_encoder=True contradicts {ENCODER}: set '{ENCODER}' only.")
        notes.append(f"policy.model.impala_cnn_encoder is {ENCODER}={model.get('encoder')!r} here.")


def take_loop_keys(user: dict[str, Any], policy_cls: Any, schema: Schema) -> None:
    """Remove `policy.on_policy` and `policy.offline`, because the class of the policy determines its training loop."""
    for name, source in LOOP_KEYS.items():
        path, right = f"policy.{name}", policy_cls.learns_from == source
        value = get_key(user, path, right)
        if value != right:
            kind = get_key(user, "policy.type")
            raise ConfigError(f"{path}: expected {right} for policy '{kind}', got {show(value)}: leave it out.")
        if path not in schema:
            pop_key(user, path)


def drop_ignored(node: dict[str, Any], prefix: str, schema: Schema, notes: list[str]) -> None:
    """Remove the `IGNORED_KEYS`."""
    for key, value in list(node.items()):
        path = prefix + key
        if path in schema and schema[path].type is not SECTION:
            continue
        if path in schema or any(known.startswith(path + ".") for known in schema):
            if isinstance(value, dict):
                drop_ignored(value, path + ".", schema, notes)
        elif path in IGNORED_KEYS:
            accepted, reason = IGNORED_KEYS[path]
            choices = accepted if isinstance(accepted, tuple) else (accepted,)
            if Any not in choices and value not in choices:
                possible = " or ".join(map(repr, choices))
                raise ConfigError(f"{path}: expected {possible} ({reason}), got {show(value)}: leave it out.")
            notes.append(f"{path} is ignored: {reason}.")
            del node[key]


def create_from(classes: Sequence[Any]) -> dict[str, Any] | None:
    """Return the `create_config` of classes that DI-engine's `compile_config` takes; None without any.

    The policy's class must be registered. Others, such as those of environment managers and workers, have no
    counterpart.
    """
    names = [name for cls in classes for name, policy in POLICY_REGISTRY.data.items() if policy is cls]
    if classes and not names:
        raise ConfigError(f"compile_config: expected a registered policy class among the classes, got {show(classes)}.")
    return {"policy": {"type": names[0]}} if classes else None
