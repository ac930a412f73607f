"""What the words of a sweep mean, and which are mistakes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ding_lite.sweep.space import Dimension, Value, check_dimensions, read_words, split_choices, to_words
from ding_lite.utils.registry import ConfigError


def read(word: str) -> Dimension:
    return read_words([word])[0][0]


@pytest.mark.parametrize(
    ("word", "dimension"),
    [
        ("a.lr=1e-4..1e-2:log", Dimension("a.lr", low=1e-4, high=1e-2, log=True)),
        ("a.n=1..5:int", Dimension("a.n", low=1, high=5, whole=True)),
        ("a.n=8..512:int:log", Dimension("a.n", low=8, high=512, whole=True, log=True)),
        ("a.x=-1.5..+.5:0.25", Dimension("a.x", low=-1.5, high=0.5, step=0.25)),
        ("a.n=0..1", Dimension("a.n", low=0, high=1)),
        ("a.n=32,64", Dimension("a.n", (32, 64))),
        ("a.s=[32],[32,32]", Dimension("a.s", ("[32]", "[32,32]"))),
        ("a.o=adam,True,None,0.5", Dimension("a.o", ("adam", True, None, 0.5))),
        ("policy=dqn,c51", Dimension("policy.type", ("dqn", "c51"))),
    ],
)
def test_a_word_is_a_range_or_a_choice(word: str, dimension: Dimension) -> None:
    assert read(word) == dimension


@pytest.mark.parametrize("word", ["a.x=3", "a.s=[32,32]", "a.path=../data", "a.path=run2../x", "a.t='a,b'"])
def test_other_words_are_the_same_in_all_trials(word: str) -> None:
    assert read_words(["a.n=1,2", word]) == ([Dimension("a.n", (1, 2))], [word])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a.x=1..2:lin"], "a.x: expected low..high with :log, :int or a step"),
        (["a.x=1..b"], "a.x: expected low..high with :log"),
        (["a.x=1...5:log:x"], "a.x: expected low..high"),
        (["a.x=2..1"], "the lower one first, got '2..1'"),
        (["a.x=0..1:log"], "two ends above 0"),
        (["a.x=1..2:log:0.1"], "no step for a logarithmic range"),
        (["a.x=1..2:3"], "at most the width of the range"),
        (["a.x=0.5..2:int"], "expected whole numbers for :int"),
        (["a.x=1,1"], "different values between the commas"),
        (["a.x=1,"], "different values between the commas"),
        (["a.x=1,2", "a.x=3"], "a.x is given twice"),
        (["seed=1,2"], "A sweep cannot vary seed: give the seeds of each trial with --seeds."),
        (["max_env_step=1..2"], "A sweep cannot vary max_env_step: give one limit for all trials."),
        (["a.x=1"], "needs a key that differs: a list such as key=32,64"),
    ],
)
def test_a_mistake_is_told(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        read_words(words)


def test_commas_inside_brackets_and_quotes_separate_nothing() -> None:
    assert split_choices("[1,2], {'a': (3,4)},'x,y',5") == ["[1,2]", "{'a': (3,4)}", "'x,y'", "5"]


def test_a_range_of_a_key_that_takes_no_fraction_is_one_of_integers() -> None:
    def compiles(values: Mapping[str, Value]) -> None:
        if not isinstance(values["a.n"], int):
            raise ConfigError("a.n: expected an integer.")

    whole, other = check_dimensions([read("a.n=1..4"), read("a.x=1..4")], compiles)
    assert (whole.whole, other.whole) == (True, False)
    assert whole.grid() == [1, 2, 3, 4]
    assert to_words({"a.n": whole.number(3.0), "a.x": other.number(3.0)}) == ["a.n=3", "a.x=3.0"]


def test_every_choice_and_both_ends_are_compiled() -> None:
    tried: list[tuple[Value, Value]] = []
    check_dimensions([read("a=1,2,3"), read("b=0.5..0.7")], lambda values: tried.append((values["a"], values["b"])))
    assert tried == [(1, 0.5), (2, 0.5), (3, 0.5), (1, 0.5), (1, 0.7)]


def test_a_grid_needs_an_end() -> None:
    assert read("a.x=0.1..0.5:0.2").grid() == [0.1, 0.3, 0.5]
    assert read("a.x=0..0.3:0.1").grid() == [0.0, 0.1, 0.2, 0.3]  # without the error of rounding
    for word in ("a.x=0.1..0.5", "a.n=1..100:log:int"):
        with pytest.raises(ConfigError, match="a grid needs a list"):
            read(word).grid()
