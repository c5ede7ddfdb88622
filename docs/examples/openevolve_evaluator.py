"""An evaluator for OpenEvolve; its configuration says `file_suffix: ".cu"`."""

import evoflash


def evaluate(program_path: str) -> dict[str, float]:
    """The numbers by which OpenEvolve ranks a program, `combined_score` first."""
    return _judge(program_path, "time")


def evaluate_stage1(program_path: str) -> dict[str, float]:
    """A first look, for cascades: what fails here is not looked at again."""
    return _judge(program_path, "check")


def _judge(program_path, stage):
    try:
        answer = evoflash.evaluate(program_path, stage=stage)
    except evoflash.UsageError:  # no kernel: the model forgot the comment that says how it is launched
        return {"combined_score": 0.0, "correct": 0.0}
    return {"combined_score": answer.score, "correct": float(answer.is_correct)}
