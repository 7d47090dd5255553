"""The zero-error question on rounded rows: how long each engine takes, and what it answers."""

from collections.abc import Sequence

from ceiling.analysis import answer_table, findings_kept, of_text, solving_times, texts_note
from ceiling.cli.figures import arguments
from ceiling.plots import time_lines, write

CAPTION = """**Zero error.** Seconds until a question is answered: is there a kept set of error exactly
zero, for the row rounded to so many bits? Against the keys whose rounded mass is positive (in ranges up to
powers of two), by the engine that proved the answer, or was stopped last: median, 90th percentile dotted,
and a cross at the longest of a range where any stayed unknown. The engines share out the questions: lines
say how long each took for its own, and are no race. An answer is proved of the rounded row: a yes was
checked in rational numbers, a no is the engine's. Of the captured row it proves nothing, and `unknown`
proves nothing at all. The paper shows that the question is NP-complete, and times no answer."""


def main(argv: Sequence[str] | None = None) -> None:
    """Write zero_error.{png,pdf,csv,md,json} from a store's zero_errors."""
    args = arguments(__doc__, argv)

    from ceiling.store import open_store

    store = open_store(args.store, args.config)
    zero_errors = of_text(store.zero_errors, store.documents, args.text)
    times, answers = solving_times(zero_errors), answer_table(zero_errors)
    note = " ".join(
        f"{row['model']}: n = {row['n']:,} instances of {row['documents']} documents at {row['bits']} bits "
        f"({row['trivial']:,} trivial left out)."
        for row in answers.iter_rows(named=True)
    )
    note += f" {texts_note(store.zero_errors, store.documents, args.text)}"
    tables = {"Answers": answers, "Seconds by keys, bits and engine": times}
    drawn, found, caption = (
        time_lines(times),
        findings_kept.zero_error(answers, times),
        f"{CAPTION}\n\n{note}",
    )
    for path in write(args.out, "zero_error", drawn, times, caption, tables, found, args.command):
        print(path)


if __name__ == "__main__":
    main()
