"""Shows the answer about somebody's kernel as text. Decides nothing."""

from evoflash.app.judge.answer import KernelAnswer


def answer_text(answer: KernelAnswer) -> str:
    """The file, what became of it line by line, what it was checked on, and what that leaves open."""
    worst = ""
    if answer.worst:
        worst = f"; the largest error, {answer.worst['rel_l2']:.2g}, at {answer.worst['shape']}"
    lines = [
        f"{answer.file}: {answer.text_feedback}",
        f"{answer.checks} outputs compared with the reference{worst}",
        f"score {answer.score:.3f}; {answer.seconds:.1f} s; sandbox: {answer.sandbox or 'none'}; "
        f"seed {answer.seed}",
    ]
    return "\n".join([*lines, *(f"note: {note}" for note in answer.notes)])
