"""Processes and threads that write into one store at once, for a while: started by `test_writers`, once a process.

Every thread remembers answers that their keys foretell, reads back its own and the others', and now and then compacts.
Prints how many answers the process remembered, and what it read that was lost or wrong.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time

from quail_engine import QuailError
from quail_engine.answers import Answer, AnswerStore, answer_key, store
from quail_engine.settings import AnswersSettings

QUESTION = b"q" * 32
THREADS = 4
_BATCH = 16


def key(process: int, thread: int, number: int) -> bytes:
    return answer_key(QUESTION, [str(process), str(thread), str(number)])


def answer(process: int, thread: int, number: int) -> Answer:
    return Answer((process + number / 4, float(thread)), number % 100)


def write(folder: str, process: int, seconds: float) -> dict[str, object]:
    """Lost and wrong answers are numbered by process, thread and number."""
    store.SEAL_ANSWERS = 1_000
    shared = AnswerStore(AnswersSettings(folder), "local")
    written, mistakes = [0] * THREADS, []
    ends = time.monotonic() + seconds

    def work(thread: int) -> None:
        chance = random.Random(process * THREADS + thread)
        while not written[thread] or time.monotonic() < ends:  # a thread that gets no time writes once, too
            numbers = range(written[thread], written[thread] + _BATCH)
            shared.remember(QUESTION, "t", [(key(process, thread, n), answer(process, thread, n)) for n in numbers])
            written[thread] = numbers.stop
            look = [(process, thread, chance.randrange(numbers.stop)) for _ in range(4)]
            found = shared.recall([key(*who) for who in look])
            mistakes.extend(who for who in look if found.get(key(*who)) != answer(*who))
            # Of the others nobody knows how far they are; what is there must be right.
            look = [(chance.randrange(4), chance.randrange(THREADS), chance.randrange(numbers.stop)) for _ in range(4)]
            found = shared.recall([key(*who) for who in look])
            mistakes.extend(who for who in look if found.get(key(*who), answer(*who)) != answer(*who))
            if chance.random() < 0.01:
                try:
                    shared.compact()
                except QuailError as error:
                    if "Another process is at work" not in str(error):
                        mistakes.append((process, thread, -1))
                        raise

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shared.close()
    return {"written": written, "mistakes": mistakes}


if __name__ == "__main__":
    print(json.dumps(write(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))))  # noqa: T201 - the answer to the test
