"""What the words of a sweep mean, and which are mistakes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

pytest.importorskip("optuna")
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from ding_lite.sweep.study import Distribution, Value, check_space, count_points, read_words, to_words
from ding_lite.utils.registry import ConfigError


@pytest.mark.parametrize(
    ("word", "distribution"),
    [
        ("a.lr=1e-4..1e-2:log", FloatDistribution(1e-4, 1e-2, log=True)),
        ("a.n=1..5:int", IntDistribution(1, 5)),
        ("a.n=8..512:int:log", IntDistribution(8, 512, log=True)),
        ("a.x=-1.5..+.5:0.25", FloatDistribution(-1.5, 0.5, step=0.25)),
        ("a.n=0..1", FloatDistribution(0, 1)),
        ("a.n=32,64", CategoricalDistribution((32, 64))),
        ("a.s=[1,2], {'a': (3,4)},'x,y'", CategoricalDistribution(("[1,2]", "{'a': (3,4)}", "'x,y'"))),
        ("a.s=[32],[32,32]", CategoricalDistribution(("[32]", "[32,32]"))),
        ("a.o=adam,True,None,0.5", CategoricalDistribution(("adam", True, None, 0.5))),
        ("policy.type=dqn,c51", CategoricalDistribution(("dqn", "c51"))),
    ],
)
def test_a_word_is_a_range_or_a_choice(word: str, distribution: Distribution) -> None:
    assert read_words([word]) == ({word.partition("=")[0]: distribution}, [])
    assert list(read_words(["policy=dqn,c51"])[0]) == ["policy.type"]


@pytest.mark.parametrize("word", ["a.x=3", "a.s=[32,32]", "a.path=../data", "a.path=run2../x", "a.t='a,b'", "a.e="])
def test_other_words_are_the_same_in_all_trials(word: str) -> None:
    assert read_words(["a.n=1,2", word]) == ({"a.n": CategoricalDistribution((1, 2))}, [word])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a.x=1..2:lin"], "a.x: expected low..high with :log, :int or a step"),
        (["a.x=2..1:int"], "a.x: a range begins with its lower end, got .2..1:int.: write a.x=1..2:int."),
        (["a.x=1..2:3"], "a.x: expected low..high"),
        (["a.x=0.5..2:int"], "a.x: expected low..high"),
        (["a.x=0..1:log"], "a.x=0..1:log: `low > 0` must hold"),
        (["a.x=1..2:log:0.1"], "a.x=1..2:log:0.1: The parameter `step` is not supported when `log` is true"),
        (["a.x=1..b"], "A sweep needs a key that differs"),
        (["a.x=1,1"], "different values between the commas"),
        (["a.x=,1"], "different values between the commas"),
        (["a.x=1,2", "a.x=3"], "a.x is given twice"),
        (["seed=1,2"], "A sweep cannot vary seed: see the options -o and -s"),
        (["max_env_step=1..2"], "A sweep cannot vary max_env_step: .* give one limit"),
        (["a.x=1"], "needs a key that differs: a list such as key=32,64"),
    ],
)
def test_a_mistake_is_told(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        read_words(words)


def test_a_range_of_a_key_that_takes_no_fraction_is_one_of_integers() -> None:
    tried: list[Mapping[str, Value]] = []

    def compiles(values: Mapping[str, Value]) -> None:
        tried.append(values)
        if not isinstance(values["n"], int):
            raise ConfigError("n: expected an integer.")

    space = check_space(read_words(["n=1..4", "x=1..4", "c=5,6"])[0], compiles)
    assert space == {"n": IntDistribution(1, 4), "x": FloatDistribution(1, 4), "c": CategoricalDistribution((5, 6))}
    # every choice and both ends of every range, after a fraction for each range of whole numbers
    assert [tuple(values.values()) for values in tried[2:]] == [
        *((1, 1.0, 5), (4, 1.0, 5), (1, 1.0, 5), (1, 4.0, 5), (1, 1.0, 5), (1, 1.0, 6))
    ]
    assert to_words(tried[-1]) == ["n=1", "x=1.0", "c=6"]


def test_a_grid_has_all_combinations_and_needs_an_end() -> None:
    assert count_points(read_words(["a=7,8", "b=0..0.3:0.1", "c=1..3:2:int"])[0]) == 2 * 4 * 2
    with pytest.raises(ConfigError, match="a grid needs a list"):
        count_points(read_words(["a.x=0.1..0.5"])[0])
