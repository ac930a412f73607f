"""Lets several programs run in turns in one thread, and computes together what they ask for.

A program is an ordinary function in a greenlet. Where it wants something that others may want too, it calls
`Hub.meet` and waits, while the others go on. When all wait, the hub chooses those that want the same, and computes it
for all of them at once.
"""

from __future__ import annotations

import contextvars
import random
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import greenlet
import numpy as np
import torch

from ding_lite.utils.seed import random_state, set_random_state


class Request(NamedTuple):
    """What a program waits for."""

    position: tuple[int, ...]  # how far the program is; those that are behind go first
    key: tuple[Hashable, ...]  # requests with the same key are computed together
    compute: Callable[[list[Any]], Sequence[Any]]  # takes the values of requests with the same key, returns the results
    value: Any


class Program:
    """A function that runs in turns with others, with global random generators of its own.

    Attributes:
        result: what the function returned.
        error: what it raised.
        request: what it waits for; None while it runs, and after its end.
    """

    def __init__(self, function: Callable[[], Any], hub: greenlet.greenlet) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self.request: Request | None = None
        self._function, self._random = function, random_state()
        self._numpy = np.random.MT19937()  # replaced as a whole, because copying its state takes longer
        self._numpy.state = self._random["numpy"]
        self._greenlet = greenlet.greenlet(self._run, hub)
        self._greenlet.gr_context = contextvars.copy_context()

    def _run(self, answer: Any = None) -> None:
        try:
            self.result = self._function()
        except BaseException as error:  # `Hub.run` hands it on; another program must not get it
            self.error = error

    @property
    def ended(self) -> bool:
        return bool(self._greenlet.dead)

    def go_on(self, answer: Any = None) -> None:
        """Let the program go on, with the answer to its request, until it waits again or ends."""
        self.request = None
        outer = np.random.get_bit_generator()  # type: ignore[attr-defined]  # documented, but not in its stubs
        np.random.set_bit_generator(self._numpy)  # type: ignore[attr-defined]
        random.setstate(self._random["python"])
        torch.set_rng_state(self._random["torch"])
        if "cuda" in self._random:
            torch.cuda.set_rng_state(self._random["cuda"])
        try:
            self._greenlet.switch(answer)
        finally:
            self._random["python"], self._random["torch"] = random.getstate(), torch.get_rng_state()
            if torch.cuda.is_initialized():
                self._random["cuda"] = torch.cuda.get_rng_state()
            np.random.set_bit_generator(outer)  # type: ignore[attr-defined]


class Hub:
    """Runs programs in turns, see the module. Which program goes on never depends on time.

    Attributes:
        programs: those that have not ended.
        on_round: called each time after the programs have gone on.
    """

    def __init__(self, on_round: Callable[[], None] = lambda: None) -> None:
        self.on_round = on_round
        self.programs: list[Program] = []
        self._own = greenlet.getcurrent()
        self._current: Program | None = None

    def run(self, functions: Sequence[Callable[[], Any]], on_end: Callable[[int, Program], None]) -> list[Program]:
        """Run the functions to their ends; `on_end` is called with the number and the program of each that has ended.

        An error ends the program that raised it, and no other.
        """
        state = random_state()
        all_programs = self.programs = [Program(function, self._own) for function in functions]
        numbers = {id(program): number for number, program in enumerate(all_programs)}
        ready: list[tuple[Program, Any]] = [(program, None) for program in all_programs]
        try:
            while ready:
                for program, answer in ready:
                    self._current = program
                    program.go_on(answer)
                for program in [program for program in self.programs if program.ended]:
                    self.programs = [each for each in self.programs if each is not program]
                    on_end(numbers[id(program)], program)
                self.on_round()
                ready = self._answers()
        finally:
            self._current = None
            set_random_state(state)
        return all_programs

    def _answers(self) -> list[tuple[Program, Any]]:
        """Compute what those that are furthest behind wait for, and return the programs with their answers."""
        requests = {number: program.request for number, program in enumerate(self.programs) if program.request}
        if not requests:
            return []
        first = min(requests.values(), key=lambda request: (request.position, str(request.key[0])))
        chosen = [self.programs[number] for number, request in requests.items() if request.key == first.key]
        values = [program.request.value for program in chosen if program.request]
        try:
            answers: Sequence[Any] = first.compute(values)
        except Exception as error:  # raised in each program that waits for it
            answers = [error] * len(chosen)
        return list(zip(chosen, answers, strict=True))

    def meet(
        self, position: tuple[int, ...], key: tuple[Hashable, ...], compute: Callable[[list[Any]], Any], value: Any
    ) -> Any:
        """Wait for others, and return the result of `compute` for this value, see `Request`; called by a program."""
        program = self._current
        assert program is not None
        with torch.inference_mode(False), torch.enable_grad():  # modes of the thread, which programs share
            program.request = Request(position, key, compute, value)
            answer = self._own.switch()
        if isinstance(answer, BaseException):
            raise answer
        return answer
