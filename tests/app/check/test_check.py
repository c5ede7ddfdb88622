"""`evoflash check` on genomes, exported files and a user's own kernels: what it finds, and at which line."""

import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from forked import evoflash
from places import KERNELS, TESTS
from rich.console import Console
from tables import table_of_cases

from evoflash.app.check import subject as check_subject
from evoflash.app.check.runs import (
    CheckReport,
    _run_all,
    _to_run,
    check_kernel,
    plan,
    reports_as_dict,
    run_case,
)
from evoflash.app.check.subject import of_export
from evoflash.errors import DeviceError, UsageError
from evoflash.kernels.family import load_family
from evoflash.kernels.gxx import build
from evoflash.kernels.renderer import render
from evoflash.kernels.standalone import export_kernel, export_values, genome_of
from evoflash.operation import operation_of
from evoflash.operations.attention.workload import parse_workload
from evoflash.paths import TEMPLATES
from evoflash.views.check import print_reports

TEXTS = TESTS / "app" / "check"
FAULTS_HEADER = (TEXTS / "faults_header.cu").read_text()
FLASH_HEADER = (TEXTS / "flash_header.cu").read_text()
FAULTY = ["block_n=32", "k_stages=2", "v_stages=2", "warps=2"]
MISSION = parse_workload("mission")
SMALL = (TEXTS / "small.cu").read_text()
GENOME = {"family": "flash_mma", "words": ["warps=4", "block_n=64"], "problem": "mission,causal", "gpu": "l4"}


def fault(folder: Path, number: int) -> Path:
    path = folder / "fault.cu"
    path.write_text(f"{FAULTS_HEADER}#define FAULT {number}\n{(KERNELS / 'faults.cu').read_text()}")
    return path


def flash(folder: Path, bug: int) -> Path:
    path = folder / "flash.cu"
    path.write_text(f"{FLASH_HEADER}#define BUG {bug}\n{(KERNELS / 'flash.cu').read_text()}")
    return path


def small(folder: Path, body: str, *, old: str = "", new: str = "") -> Path:
    path = folder / "small.cu"
    path.write_text(SMALL.replace("BODY", body).replace(old, new) if old else SMALL.replace("BODY", body))
    return path


def check_file(
    path: Path, *, runs: int = 4, gpu: str | None = None, problem: str | None = None
) -> CheckReport:
    (subject,) = check_subject.of_file(path, problem=problem, gpu=gpu)
    return check_kernel(subject, runs=runs, seed=1)


def line_of(path: Path, wanted: str) -> int:
    """The last line that begins like this: planted bugs stand before the right line."""
    lines = path.read_text().splitlines()
    return max(number for number, line in enumerate(lines, 1) if line.strip().startswith(wanted))


def kinds(checked: CheckReport) -> dict[str, int]:
    return {finding.kind: finding.line for finding in checked.findings}


def page(checked: CheckReport) -> str:
    text = io.StringIO()
    print_reports([checked], Console(file=text, width=180))
    return text.getvalue()


# ---- faults in a user's own kernel


@pytest.mark.slow
@table_of_cases()
@pytest.mark.sample(4)
def test_a_fault_is_found_in_every_run_at_its_line(tmp_path, number, kind, line):
    path = fault(tmp_path, number)
    checked = check_file(path)

    (error,) = [finding for finding in checked.findings if finding.severity == "error"]
    assert error.kind == kind
    assert path.read_text().splitlines()[error.line - 1].strip() == line
    assert error.runs == len(checked.runs) == 4


@pytest.mark.parametrize("number", [0, 10, 14])
def test_a_right_kernel_passes(tmp_path, number):
    checked = check_file(fault(tmp_path, number))

    assert checked.findings == ()
    assert "passed: " in page(checked)


def test_a_race_shows_both_places_with_their_source(tmp_path):
    path = flash(tmp_path, 1)
    text = page(check_file(path))
    copy, read = line_of(path, "ef::cp_async16_zfill(chunk_at"), line_of(path, "ef::ldmatrix_x4(b, chunk_at")

    assert re.search(r"^error\[race-WAR\]: write of shared offset", text)
    assert re.search(rf"--> .*flash\.cu:{copy}:5\n.*\n *{copy} \|     ef::cp_async16_zfill\(chunk_at", text)
    assert re.search(
        rf"note: the read .*\n.*flash\.cu:{read}:9\n.*\n{read} \|         ef::ldmatrix_x4\(b", text
    )
    assert "= help: All readers must be done" in text


def test_slow_accesses_are_warnings_and_pass(tmp_path):
    checked = check_file(flash(tmp_path, 7))

    assert {finding.kind for finding in checked.findings} == {"bank-conflict", "uncoalesced"}
    assert checked.errors == 0
    assert "ldmatrix takes 8.0 times the wavefronts" in checked.findings[0].message


def test_what_a_broken_run_moves_is_not_called_slow(tmp_path):
    assert "uncoalesced" not in kinds(check_file(flash(tmp_path, 1)))


# ---- what only check.py finds


def test_a_crash_costs_its_run_and_is_a_finding(tmp_path):
    body = "((void (*)())(unsigned long long)(n - 32))();"
    checked = check_file(small(tmp_path, body), runs=2)

    assert kinds(checked) == {"crash": 0}
    assert checked.findings[0].runs == 2
    assert "signal 11" in checked.findings[0].message


def test_a_process_that_dies_before_the_kernel_began_is_no_finding(tmp_path):
    """A library that was cut takes the process with it as it is loaded."""
    (subject,) = check_subject.of_file(
        small(tmp_path, "ef::stg(x + threadIdx.x, 1.0f);"), problem=None, gpu=None
    )
    whole, cut = build(subject.source, name="small"), tmp_path / "cut.so"
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // 3])
    with pytest.raises(DeviceError, match=r"die before a kernel begins in them .*signal 7"):
        _run_all(cut, _to_run(subject, None, runs=1, seed=1))


def test_what_a_static_variable_keeps_is_an_error(tmp_path):
    body = "static float t[32]; t[threadIdx.x] = n; ef::stg(x + threadIdx.x, t[31 - threadIdx.x]);"
    checked = check_file(small(tmp_path, body))

    # It may come from an earlier launch.
    assert kinds(checked) == {"kept-state": 13}
    assert checked.errors == 1


def test_elements_that_nobody_wrote_are_a_warning(tmp_path):
    checked = check_file(small(tmp_path, "if (threadIdx.x < 7) ef::stg(x + threadIdx.x, 1.0f);"))

    (finding,) = checked.findings
    assert (finding.kind, finding.message) == (
        "unwritten-output",
        "25 of 32 elements of 'x' were not written",
    )


def test_elements_that_were_written_as_nan_are_a_warning(tmp_path):
    checked = check_file(small(tmp_path, "ef::stg(x + threadIdx.x, threadIdx.x < 7 ? 0.0f / 0.0f : 1.0f);"))

    (finding,) = [each for each in checked.findings if each.kind == "not-a-number"]
    assert finding.message == "7 of 32 elements of 'x' were written as NaN"
    assert finding.severity == "warning"


def test_what_gpp_refuses_is_shown_with_its_column(tmp_path):
    checked = check_file(small(tmp_path, "__syncthreads();"))

    assert kinds(checked) == {"compile": 13, "unseen": 13}
    # The ef:: way comes first, then what g++ says.
    assert [(finding.kind, finding.column) for finding in checked.findings] == [("unseen", 0), ("compile", 3)]
    assert "it was not run" in page(checked)


def test_nvrtc_and_the_gpus_limits_have_their_say_with_a_gpu(tmp_path):
    path = small(
        tmp_path,
        "ef::stg(x + threadIdx.x, __builtin_cosf(1.0f));",
        old="block = 32",
        new="block = 32\nsmem = 150000",
    )
    without, with_gpu = check_file(path, runs=1), check_file(path, runs=1, gpu="l4")

    assert kinds(without).keys() == {"unseen"}  # the emulator does not
    assert kinds(with_gpu).keys() == {"unseen", "nvrtc", "cannot-launch"}
    assert kinds(with_gpu)["nvrtc"] == 14


def test_a_cluster_that_the_gpu_does_not_have_is_an_error(tmp_path):
    body = "if (blockIdx.x == 0) ef::stg(x + threadIdx.x, 1.0f);"
    checked = check_file(small(tmp_path, body, old="grid = 1", new="grid = 2\ncluster = 2"), runs=1, gpu="l4")

    (finding,) = checked.findings
    assert finding.kind == "cannot-launch"
    assert "clusters need sm_90" in finding.message


def test_the_registers_come_from_ptxas(tmp_path):
    checked = check_file(small(tmp_path, "ef::stg(x + threadIdx.x, 1.0f);"), runs=1, gpu="h200")

    assert checked.build is not None
    assert 0 < checked.build.registers < 64


# ---- attention kernels


@pytest.fixture
def own_attention(tmp_path) -> Path:
    """A rendered kernel as a user's own file: its text below the comment."""
    genome, problem, gpu = genome_of(**GENOME)
    smem = load_family("flash_mma").launches(genome, problem.workloads[0], gpu)[0].smem_bytes
    header = (
        f'/* evoflash check\nentry = "flash_mma"\ngrid = ["ceil_div(seq_q, 64)", "heads", "batch"]\n'
        f'block = 128\nsmem = {smem}\nattention = {{ stages = 1, problem = "mission,causal" }}\n*/\n'
    )
    path = tmp_path / "mine.cu"
    path.write_text(header + render(genome, problem.compile_keys(gpu.arch)[0], gpu).source)
    return path


@pytest.mark.slow
def test_an_attention_kernel_is_judged_by_the_reference(own_attention):
    right = check_file(own_attention, runs=3)
    own_attention.write_text(own_attention.read_text().replace("% 2 >= limit", "% 2 > limit"))
    wrong = check_file(own_attention, runs=1)

    assert right.errors == 0
    assert len({record.case for record in right.runs}) * 3 == len(right.runs)
    assert "LSE null" in str(right.runs[2].run)
    (error,) = [finding for finding in wrong.findings if finding.severity == "error"]
    assert error.kind == "wrong-result"
    assert re.search(r"O is \S+ instead of \S+ at b=0 h=0 row=\d+ col=\d+", error.message)
    assert "elements are wrong: heads 0, rows" in error.places[0].label


@table_of_cases()
@pytest.mark.sample(1)
def test_what_only_strides_or_batches_or_equal_lengths_show_is_found(own_attention, right, wrong):
    text = own_attention.read_text()
    assert right in text
    own_attention.write_text(text.replace(right, wrong))

    assert check_file(own_attention, runs=2).errors


def test_a_small_shape_of_the_problem_is_run_itself_and_a_large_one_is_named(own_attention):
    small_shape = "b=1,h=2,s=96,d=64,causal"
    checked = check_file(own_attention, problem=f"{small_shape}+mission,causal", runs=1)

    cases = [record.case for record in checked.runs]
    assert cases[-1] == "b=1,h=2,hkv=2,sq=96,skv=96,d=64,dtype=fp16,causal"
    assert len(set(cases)) == len(cases) > 2
    assert any("sq=512" in note and "too large" in note for note in checked.notes)


HOPPER_HEADER = (TEXTS / "hopper_header.cu").read_text()


@pytest.mark.full
def test_an_attention_kernel_with_tensor_maps_is_judged_too(tmp_path):
    # Q and O, two stages of K and V, nine mbarriers (tests/hopper_kernel.py).
    smem_bytes = (128 + 64 * 4) * 128 + 9 * 8
    text = HOPPER_HEADER.replace("SMEM", str(smem_bytes)) + (KERNELS / "hopper.cu").read_text()
    path = tmp_path / "hopper.cu"
    path.write_text(text)
    right = check_file(path, runs=1)
    path.write_text(text.replace("ef::fence_proxy_async();", ""))
    wrong = check_file(path, runs=1)

    assert (right.errors, set(kinds(right)) - {"uncoalesced"}) == (0, set())  # LSE of many heads of few rows
    (error,) = (each for each in wrong.findings if each.kind != "uncoalesced")
    assert error.kind == "missing-proxy-fence"
    # The fence is missing behind the write; that it is missing is noticed by the store.
    assert error.line == line_of(path, "ef::stmatrix_x4(chunk_at(q_tile")
    assert error.places[0].line == line_of(path, "ef::tma_store(&O_map")


# ---- genomes and exported files


def test_a_genome_is_checked_in_its_rendered_source(tmp_path, monkeypatch):
    broken = tmp_path / "templates"
    shutil.copytree(TEMPLATES / "flash_mma", broken / "flash_mma")
    shutil.copy(TEMPLATES / "flash_mma.cu.j2", broken / "unsynced.cu.j2")
    for path in broken.rglob("*.cu.j2"):
        path.write_text(path.read_text().replace("ef::syncthreads();", ""))
    monkeypatch.setenv("EVOFLASH_TEMPLATES", str(broken))

    (subject,) = check_subject.named_kernels(None, "unsynced", [], problem=None, gpu="l4", db="")
    checked = check_kernel(subject, runs=2, seed=1)

    races = [finding for finding in checked.findings if finding.kind.startswith("race")]
    assert races
    assert "ef::" in checked.path.read_text().splitlines()[races[0].line - 1]
    assert checked.path.read_text() == subject.shown


def test_a_problem_of_two_kernels_is_checked_as_two(tmp_path):
    subjects = check_subject.named_kernels(
        None, "flash_mma", [], problem="mission+mission,causal", gpu="l4", db=""
    )

    assert len(subjects) == 2
    assert len({subject.source for subject in subjects}) == 2


def test_an_exported_file_is_rendered_again_and_its_own_lines_are_named(tmp_path):
    path = tmp_path / "kernel.cu"
    path.write_text(export_values(GENOME["family"], GENOME["words"], problem=GENOME["problem"], gpu="l4"))
    (subject,) = of_export(path, problem=None, gpu=None)
    checked = check_kernel(subject, runs=1, seed=1)
    store = next(finding for finding in checked.findings if finding.kind == "uncoalesced")

    assert checked.errors == 0
    assert checked.path == path
    assert "ef::stg(" in path.read_text().splitlines()[store.line - 1]
    assert "inlines PTX" in checked.notes[0]


def test_an_exported_file_is_checked_with_the_gpu_and_problem_that_it_was_exported_for(tmp_path):
    path = tmp_path / "kernel.cu"
    path.write_text(export_values(GENOME["family"], GENOME["words"], problem=GENOME["problem"], gpu="l4"))

    (subject,) = of_export(path, problem=GENOME["problem"], gpu="l4")
    assert "edited" not in subject.title
    (on_another,) = of_export(path, problem=None, gpu="a100")
    assert on_another.gpu.name == "a100"
    with pytest.raises(UsageError, match="leave --problem out"):
        of_export(path, problem="s2k_d128,dtype=bf16", gpu=None)


def test_an_export_that_was_edited_outside_of_its_kernel_is_said_to_be(tmp_path):
    path = tmp_path / "kernel.cu"
    text = export_values(GENOME["family"], GENOME["words"], problem=GENOME["problem"], gpu="l4")
    path.write_text(text.replace("int main(", "int  main("))
    (subject,) = of_export(path, problem=None, gpu=None)
    assert "differs from its export outside of the kernel" in subject.notes[1]


@table_of_cases()
@pytest.mark.sample(1)
def test_a_fault_edited_into_an_exported_kernel_is_found(tmp_path, old, new, kind):
    path = tmp_path / "kernel.cu"
    text = export_values("flash_mma", FAULTY, problem="b=1,h=2,s=96,d=32", gpu="l4")
    before, kernel = text.split("}  // namespace ef\n", 1)
    assert old in kernel, kernel
    path.write_text(before + "}  // namespace ef\n" + kernel.replace(old, new))

    (subject,) = of_export(path, problem=None, gpu=None)
    checked = check_kernel(subject, runs=2, seed=1)
    assert "edited" in subject.title
    found = [finding for finding in checked.findings if finding.severity == "error"]
    assert any(finding.kind.startswith(kind) for finding in found), found


def test_an_edited_genomes_export_lacks_the_ptx_that_the_edit_leaves_unused(tmp_path):
    edit = ("row_max[t][h] * scale + ef::lg2(sum) * kLn2;", "row_max[t][h] * scale;")
    genome, problem, gpu = genome_of("flash_mma", FAULTY, problem="b=1,h=2,s=96,d=32", gpu="l4")
    path = tmp_path / "kernel.cu"
    path.write_text(export_kernel(replace(genome, edits=(edit,)), problem, gpu))
    (subject,) = of_export(path, problem=None, gpu=None)

    assert "lg2.approx" in export_kernel(genome, problem, gpu)
    assert "lg2.approx" not in path.read_text()
    assert "edited" in subject.title


@pytest.mark.full
def test_a_file_with_a_prefix_is_checked_as_the_kernel_that_it_is_and_its_edits_are_found(tmp_path):
    path = tmp_path / "kernel.cu"
    text = export_values("flash_mma", FAULTY, problem="b=1,h=2,s=96,d=32", gpu="l4", prefix="mine")
    path.write_text(text)
    (whole,) = of_export(path, problem=None, gpu=None)
    path.write_text(text.replace("ef::syncthreads();  // K tile j is", "// K tile j is"))
    (edited,) = of_export(path, problem=None, gpu=None)

    assert "edited" not in whole.title
    assert len(whole.notes) == 1
    assert "edited" in edited.title
    errors = [
        finding for finding in check_kernel(edited, runs=2, seed=1).findings if finding.severity == "error"
    ]
    (race, *_) = [finding for finding in errors if finding.kind.startswith("race")]
    assert "ef::" in path.read_text().splitlines()[race.line - 1]


# ---- the file's comment


@table_of_cases()
def test_a_mistake_in_the_comment_names_file_line_and_key(tmp_path, old, new, says):
    path = small(tmp_path, "", old=old, new=new)

    with pytest.raises(UsageError, match=says):
        check_subject.of_file(path, problem=None, gpu=None)


def test_arguments_that_do_not_fit_the_kernel_are_said(tmp_path):
    path = small(tmp_path, "", old='dtype = "i32", value', new='dtype = "i64", value')

    with pytest.raises(UsageError, match="argument 1 of small has 4 bytes, 8 were given"):
        check_file(path, runs=1)


def test_arrays_hold_what_the_comment_says(tmp_path):
    body = (
        "const float want[4] = {0.0f, 1.0f, 2.0f, 3.0f}; const unsigned i = threadIdx.x;"
        "if (i < 4 && (ef::to_f32(ef::ldg(h + i)) != want[i] || ef::ldg(z + i) != 0 || ef::ldg(c + i) != 2.5f"
        " || ef::ldg(r + i) < 0 || ef::ldg(r + i) > 99)) ef::lds<int>(0);"
    )
    path = tmp_path / "small.cu"
    arrays = (
        '{ name = "h", dtype = "bf16", shape = [2, 2], fill = "arange" }, '
        '{ name = "z", dtype = "i32", shape = [4], fill = "zeros" }, '
        '{ name = "c", dtype = "f32", shape = [4], fill = 2.5 }, { name = "r", dtype = "i64", shape = [4] }'
    )
    text = re.sub(r"arguments = \[.*?\n\]", f"arguments = [{arrays}]", SMALL, flags=re.DOTALL)
    text = text.replace(
        "float* x, int n", "const ef::bf16* h, const int* z, const float* c, const long long* r"
    )
    path.write_text(text.replace("BODY", body))

    assert check_file(path, runs=1).findings == ()
    path.write_text(text.replace("BODY", body.replace("1.0f", "1.5f")))
    assert "OOB-shared" in kinds(check_file(path, runs=1))


TMA = (TEXTS / "tma.cu").read_text()


def test_a_box_makes_a_tensor_map_of_an_array(tmp_path):
    path = tmp_path / "tma.cu"
    path.write_text(TMA)
    (subject,) = check_subject.of_file(path, problem=None, gpu=None)
    (run, trial), *_ = plan(1, seed=1)
    ran = run_case(build(TMA, name="tma"), subject.cases[0], run, trial)

    assert ran.reports == ()
    assert ran.written[0].values.tolist() == [*range(40, 48), *range(56, 64)]


def test_a_map_of_another_argument_reaches_the_same_array(tmp_path):
    text = TMA.replace(", box = [2, 8]", "").replace("tma(EF_TMAP(x)", "tma(const float* x0, EF_TMAP(x)")
    text = text.replace('{ name = "y"', '{ map = "x", box = [2, 8] },\n  { name = "y"')
    path = tmp_path / "tma.cu"
    path.write_text(text)
    (subject,) = check_subject.of_file(path, problem=None, gpu=None)
    (run, trial), *_ = plan(1, seed=1)
    ran = run_case(build(text, name="tma"), subject.cases[0], run, trial)

    assert ran.written[0].values.tolist() == [*range(40, 48), *range(56, 64)]
    for wrong in ('map = "z"', 'map = "y"'):
        path.write_text(text.replace('map = "x"', wrong))
        with pytest.raises(UsageError, match="must name an array, with a side of box"):
            check_subject.of_file(path, problem=None, gpu=None)


def test_a_box_that_a_driver_would_refuse_is_refused_with_its_argument(tmp_path):
    path = tmp_path / "tma.cu"
    path.write_text(TMA.replace("box = [2, 8]", "box = [2, 6]"))

    with pytest.raises(UsageError, match="the map of 'x': a box row of 24 bytes"):
        check_file(path, runs=1)


def test_a_wrong_byte_count_names_the_barrier_that_everyone_waits_for(tmp_path):
    path = tmp_path / "tma.cu"
    path.write_text(TMA.replace("expect_tx(bar, 64)", "expect_tx(bar, 128)"))
    (error,) = check_file(path, runs=2).findings

    assert error.kind == "DEADLOCK"
    assert error.line == line_of(path, "ef::mbar_wait")
    assert any("128" in place.label for place in error.places)


# ---- runs


def test_the_runs_cover_every_delivery_with_every_schedule():
    runs = [run for run, _ in plan(10, seed=5, workload=MISSION)]

    assert [run.seed for run in runs] == list(range(5, 15))
    assert len({(run.delivery, run.schedule) for run in runs}) == 6
    assert (runs[0].delivery, runs[0].schedule) == ("lazy", "fifo")
    assert plan(3, seed=5, workload=MISSION) == plan(10, seed=5, workload=MISSION)[:3]


def test_one_run_in_four_has_tensors_that_are_not_dense_and_cases_go_on_with_the_inputs():
    kinds = operation_of(MISSION).inputs.scheduled
    first, second = (plan(4, seed=5, workload=MISSION, at_kind=at) for at in (0, 4))

    assert [run.is_strided for run, _ in first] == [False, True, False, False]
    assert [name for _, name in (*first, *second)] == list(kinds[:8])
    assert not any(run.is_strided for run, _ in plan(4, seed=5))


def test_a_run_that_does_not_end_is_the_last(tmp_path, monkeypatch):
    monkeypatch.setattr("evoflash.app.check.runs.CPU_LIMIT_S", 0.3)
    endless = "float v = 1.0f; while (v > -1000.0f) v = v * 0.5f + 1.0f; ef::stg(x + threadIdx.x, v);"
    checked = check_file(small(tmp_path, endless), runs=40)

    assert "TIMEOUT" in kinds(checked)
    assert len(checked.runs) < 40
    assert f"{40 - len(checked.runs)} runs were not made after one that does not end." in checked.notes


@pytest.mark.full  # three seconds of the CPU
def test_a_loop_that_does_nothing_is_told_long_before_the_limit(tmp_path):
    endless = "float v = 1.0f; while (v > -1000.0f) v = v * 0.5f + 1.0f; ef::stg(x + threadIdx.x, v);"
    (finding,) = [each for each in check_file(small(tmp_path, endless)).findings if each.kind == "TIMEOUT"]

    assert "it does not end" in finding.message
    assert "the CPU limit passed" not in finding.message


def test_json_holds_what_the_page_shows(tmp_path):
    path = flash(tmp_path, 1)
    document = json.loads(json.dumps(reports_as_dict([check_file(path)])))
    copy, read = line_of(path, "ef::cp_async16_zfill(chunk_at"), line_of(path, "ef::ldmatrix_x4(b, chunk_at")

    assert (document["verdict"], document["warnings"]) == ("failed", 0)
    (checked,) = document["checked"]
    assert [run["delivery"] for run in checked["runs"]] == ["lazy", "random", "eager", "random"]
    race = checked["findings"][0]
    assert (race["kind"], race["severity"], race["line"], race["runs_seen"]) == ("race-WAR", "error", copy, 4)
    assert race["source"].strip().startswith("ef::cp_async16_zfill(")
    assert race["places"][0]["line"] == read
    assert checked["registers"] is None


# ---- the command


@pytest.mark.slow
def test_exit_codes_and_streams(tmp_path):
    good = evoflash("check", str(fault(tmp_path, 0)), "--runs", "1", cwd=tmp_path)
    bad = evoflash("-q", "check", "fault.cu", "--runs", "1", cwd=fault(tmp_path, 9).parent)
    slow = evoflash("check", str(flash(tmp_path, 0)), "--runs", "1", "--strict", cwd=tmp_path)
    missing = evoflash("check", "none.cu", cwd=tmp_path)

    assert (good.returncode, bad.returncode, slow.returncode, missing.returncode) == (0, 1, 1, 2)
    assert bad.stdout.startswith("error[race-WAW]: ")
    assert f"--> fault.cu:{line_of(tmp_path / 'fault.cu', 'ef::sts(smem, thread)')}:3" in bad.stdout
    assert "\x1b" not in bad.stdout
    assert bad.stderr == ""
    assert missing.stderr.startswith("evoflash: none.cu cannot be read")
    assert missing.stdout == ""


@pytest.mark.full
def test_a_stored_kernel_is_checked_by_the_first_digits_of_its_id(tmp_path):
    place = ("--db", str(tmp_path / "a.db"))
    searched = evoflash(
        "search", "--gpu", "l4", "--family", "flash_simt", "--budget", "1", "--json", *place, cwd=tmp_path
    )
    genome = json.loads(searched.stdout)["best"]["genome"]["id"]
    done = evoflash("check", genome[:6], "--runs", "1", "--json", *place, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    (checked,) = json.loads(done.stdout)["checked"]
    assert checked["genome"] == genome
    assert checked["gpu"] == "l4"
