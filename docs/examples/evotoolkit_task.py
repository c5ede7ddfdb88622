"""A task for evotoolkit 2.0, which asks an object for its `spec` and has it evaluate proposed files."""

import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import evoflash

try:
    from evotoolkit import EvaluationResult, TaskSpec
except ImportError:  # with its fields, for trying this file without evotoolkit
    EvaluationResult = TaskSpec = SimpleNamespace


class AttentionTask:
    """Attention in one .cu; the feedback names what is wrong by line."""

    spec = TaskSpec(
        name="attention",
        prompt="Write a fast attention kernel with the ef:: layer; keep the comment at the top.",
        modality="cuda",
        main_file="kernel.cu",
        extras={},
    )

    def evaluate(self, files):
        """What became of the proposed texts, by path."""
        begun_s = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / self.spec.main_file
            path.write_text(files[self.spec.main_file])
            try:
                answer = evoflash.evaluate(path)
                valid, score, feedback = answer.is_correct, answer.score, answer.text_feedback
            except evoflash.UsageError as error:
                valid, score, feedback = False, 0.0, str(error)
        return EvaluationResult(
            valid=valid,
            score=score,
            feedback=feedback,
            metrics={},
            cost_seconds=time.monotonic() - begun_s,
        )
