"""Baselines without a GPU: how each library is called, what is absent and why, rows, tables, the command."""

import json
import math
import sys
import textwrap
import types
import warnings
from contextlib import nullcontext

import numpy as np
import pytest
from forked import evoflash
from rich.console import Console
from tables import table_of_cases

from evoflash.app import baselines as baseline_times
from evoflash.app import insights
from evoflash.errors import NoKernelError, UsageError
from evoflash.evaluation import Baseline, Basis, RunKey, Status, Timing, Verdict
from evoflash.gpu.baselines import DEFAULT, NAMES, OPTIONAL, compile_ahead
from evoflash.gpu.baselines.attention import flash_attention_3, flashinfer, sdpa, xformers
from evoflash.gpu.baselines.attention import flash_attention_4 as fa4
from evoflash.gpu.baselines.contender import (
    BaselineAbsentError,
    LibraryCall,
    LibraryContender,
    import_library,
    reason_of,
)
from evoflash.gpu.process.finals import FinalReport, row_of
from evoflash.isolation import Ending
from evoflash.operations.attention.reference import attention
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.problem import parse_problem
from evoflash.store.store import open_store
from evoflash.views import leaderboard as baseline_report

SQUARE = AttentionWorkload(2, 4, 4, 9, 9, 16, causal=True)
GROUPED = AttentionWorkload(2, 6, 2, 5, 9, 16, causal=True)
SINGLE = AttentionWorkload(1, 6, 2, 5, 9, 16)
SHAPES = pytest.mark.parametrize("workload", [SQUARE, GROUPED, SINGLE], ids=["square", "grouped", "single"])


def timing_of(us, workload="mission", protocol="final-cold"):
    return Timing(str(parse_problem(workload).workloads[0]), protocol, us, us - 0.1, us + 0.1, 20)


def verdict_of(workload="mission", reason=""):
    return Verdict(str(parse_problem(workload).workloads[0]), not reason, 1e-4, 1e-3, 1e-5, 1.0, reason)


def report_of(timings, verdicts=None, absent=None):
    verdicts = {name: (verdict_of(),) for name in timings} | (verdicts or {})
    environment = {name: {"torch": "2.11.0", "layout": "views"} for name in timings}
    return FinalReport(timings, (), verdicts, absent or {}, environment)


def test_the_names_are_in_one_order_and_finals_time_rivals_only():
    assert set(DEFAULT) < set(NAMES)
    assert tuple(name for name in NAMES if name in DEFAULT) == DEFAULT
    assert {"sdpa_math", "xformers"}.isdisjoint(DEFAULT)
    assert set(OPTIONAL) == {name for name in NAMES if not name.startswith(("sdpa", "cublaslt", "scaled"))}


def test_what_is_noted_of_a_library_needs_no_library_where_it_is_read():
    """PyTorch's version is a class of its own: the search's process loaded all of PyTorch to read it."""

    class Version(str):
        __slots__ = ()

    contender = object.__new__(LibraryContender)
    contender._torch, contender._views, contender._inputs = (
        types.SimpleNamespace(__version__=Version("2.11")),
        [],
        [],
    )
    contender._attention = LibraryCall(lambda: None, {"cudnn": Version("9"), "x": "8 bits"})
    assert contender.environment == {"torch": "2.11", "layout": "views", "cudnn": "9", "x": "8 bits"}
    assert {type(value) for value in contender.environment.values()} == {str}


def test_an_error_of_a_class_of_pytorchs_own_is_told_in_words(monkeypatch):
    from evoflash.gpu.process import finals

    def fail(task):
        raise type("AcceleratorError", (RuntimeError,), {"__module__": "torch"})(
            "CUDA error: misaligned address"
        )

    monkeypatch.setattr(finals, "_finals", fail)
    assert finals.run_finals(None) == Ending(None, Status.RUNTIME, "CUDA error: misaligned address")


# What is missing


def test_a_module_that_is_not_installed_says_how_to_get_it():
    with pytest.raises(BaselineAbsentError, match=r"^no_such_library is not installed: pip install it$"):
        import_library("no_such_library.interface", "pip install it")


def test_a_module_whose_own_need_is_missing_says_which(tmp_path, monkeypatch):
    (tmp_path / "needy_library.py").write_text("import no_such_need\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BaselineAbsentError, match="needy_library needs no_such_need, which is not installed"):
        import_library("needy_library", "pip install it")


def test_a_reason_is_one_line_of_bounded_length():
    assert reason_of(RuntimeError("\n\n  first\nsecond")) == "first"
    assert reason_of(AssertionError()) == "AssertionError"
    assert reason_of(SystemExit(3)) == "it called exit(3)"
    assert len(reason_of(RuntimeError("x" * 1000))) == 200


# How each library is called: a stand-in of its documented signature and layout computes on the CPU.


def torch_attention(torch, q, k, v, *, scale, causal):
    """(B, H, S, D), bottom-right; independent of evoflash's reference and of torch's own attention."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    scores = (q.double() @ k.double().transpose(-1, -2)) * scale
    if causal:
        rows, columns = scores.shape[-2:]
        seen = torch.ones(rows, columns).tril(diagonal=columns - rows).bool()
        scores = scores.masked_fill(~seen, -math.inf)
    return (scores.softmax(-1) @ v.double()).half()


def stand_in(name, torch):
    """A module as the library documents it."""
    module = types.ModuleType(name)

    def rows_first(q, k, v, softmax_scale=None, causal=False):
        turned = (x.transpose(1, 2) for x in (q, k, v))
        return torch_attention(torch, *turned, scale=softmax_scale, causal=causal).transpose(1, 2)

    module.flash_attn_func = rows_first
    return module


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="needs torch: pip install '.[baselines]'")


def drawn(torch, workload):
    w, rng = workload, np.random.default_rng(3)
    shapes = [(w.batch, w.heads, w.seq_q, w.head_dim), *2 * [(w.batch, w.kv_heads, w.seq_kv, w.head_dim)]]
    return [torch.from_numpy(rng.standard_normal(shape).astype(np.float16)) for shape in shapes]


def check(torch, called, workload):
    """What the library returns, as (B, H, S, D), against evoflash's reference."""
    tensors = drawn(torch, workload)
    q, k, v = (x.numpy().astype(np.float32) for x in tensors)
    scale = 1 / math.sqrt(workload.head_dim)
    expected, _ = attention(q, k, v, causal=workload.causal, scale=scale)
    out = called.heads_first(called.attend(*(called.arrange(x) for x in tensors)))
    assert out.shape == tensors[0].shape
    np.testing.assert_allclose(out.float().numpy(), expected, atol=2e-3)


def bench_of(workload):
    return types.SimpleNamespace(workload=workload)


@SHAPES
def test_flash_attention_3_gets_its_layout_and_mask(torch, workload, monkeypatch):
    monkeypatch.setitem(sys.modules, "flash_attn_interface", stand_in("flash_attn_interface", torch))
    for called in flash_attention_3.calls("fa3", bench_of(workload)):
        check(torch, called, workload)
        assert "flash-attn-3" in called.environment


@pytest.fixture(params=[("xformers", "flash_attn_3/_C.so"), ("vllm", "vllm_flash_attn/_vllm_fa3_C.abi3.so")])
def wheel(request, monkeypatch, tmp_path):
    """A package that brings FlashAttention-3, as a folder on the path; importing it would fail."""
    package, file = request.param
    for name in flash_attention_3._MODULES:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, package, raising=False)
    library = tmp_path / package / file
    library.parent.mkdir(parents=True)
    library.write_bytes(b"no library")
    (tmp_path / package / "__init__.py").write_text(f"raise RuntimeError('{package} was imported')")
    monkeypatch.syspath_prepend(tmp_path)
    return library


@SHAPES
def test_flash_attention_3_is_found_in_wheels_of_others(torch, workload, monkeypatch, wheel):
    loaded = []

    def xformers(q, k, v, softmax_scale=None, is_causal=False):
        turned = (x.transpose(1, 2) for x in (q, k, v))
        out = torch_attention(torch, *turned, scale=softmax_scale, causal=is_causal).transpose(1, 2)
        return out, None, None, None

    def vllm(q, k, v, *others):
        begins, longest = others[4:6], others[9:11]
        assert [len(x) for x in (q, k)] == [x[-1] for x in begins]
        assert [x.diff().unique().tolist() for x in begins] == [[length] for length in longest]
        assert {*others[:4], *others[6:9], *others[11:20]} == {None}  # no other keys, lengths or pages
        rows_of = zip((q, k, v), (longest[0], longest[1], longest[1]), strict=True)
        out, *_ = xformers(*(x.unflatten(0, (-1, length)) for x, length in rows_of), *others[20:22])
        return out.flatten(0, 1), None

    operators = {name: types.SimpleNamespace(fwd=call) for name, call in
                 (("flash_attn_3", xformers), ("_vllm_fa3_C", vllm))}  # fmt: skip
    ops = types.SimpleNamespace(load_library=loaded.append, **operators)
    pytorch = types.SimpleNamespace(ops=ops, arange=torch.arange, int32=torch.int32)
    monkeypatch.setattr(flash_attention_3, "torch", lambda: pytorch)
    called = list(flash_attention_3.calls("fa3", bench_of(workload)))
    assert loaded == [str(wheel)]
    assert len(called) == (1 if "vllm" in wheel.parts else 2)
    for each in called:
        check(torch, each, workload)
        assert each.environment["flash-attn-3"].startswith(("in xFormers ", "in vLLM "))


def test_a_library_in_a_wheel_that_does_not_load_makes_flash_attention_3_absent(torch, wheel):
    del torch
    with pytest.raises(BaselineAbsentError, match=rf"^FlashAttention-3 in (vllm|xformers): .*{wheel.name}"):
        next(flash_attention_3.calls("fa3", bench_of(SQUARE)))


def test_without_any_flash_attention_3_says_what_to_install(monkeypatch):
    for name in (*flash_attention_3._MODULES, "flash_attn_3", "xformers", "vllm"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(BaselineAbsentError, match=r"is not installed: pip install .*xformers==0\.0\.34"):
        next(flash_attention_3.calls("fa3", bench_of(SQUARE)))


@SHAPES
def test_flash_attention_4_gets_its_layout_and_mask(torch, workload, monkeypatch):
    library = stand_in("flash_attn.cute.interface", torch)
    for name in ("flash_attn", "flash_attn.cute"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "flash_attn.cute.interface", library)
    strided, copied = fa4.calls("fa4", bench_of(workload))
    check(torch, strided, workload)
    check(torch, copied, workload)
    assert copied.arrange(drawn(torch, workload)[0]).is_contiguous()


def test_flash_attention_4_compiles_its_default_and_its_settings_before_it_is_called(torch, monkeypatch):
    seen = []

    def attend(q, k, v, softmax_scale=None, causal=False, tile_mn=None, **setting):
        is_fake = all(type(tensor).__name__ == "FakeTensor" for tensor in (q, k, v))
        seen.append((is_fake, tuple(q.shape), k.dtype, causal, tile_mn))
        if tile_mn == (64, 64):
            raise RuntimeError("this tile is refused")
        return torch.empty_like(q), None

    library = types.ModuleType("flash_attn.cute.interface")
    library.flash_attn_func = library._flash_attn_fwd = attend
    for name in ("flash_attn", "flash_attn.cute"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "flash_attn.cute.interface", library)
    for capability, settings in (((9, 0), fa4.settings(64)), ((8, 9), ())):
        seen.clear()
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda found=capability: found)
        compile_ahead(AttentionWorkload(2, 6, 2, 5, 9, 64, dtype="bf16", causal=True))
        tiles = [None, *((setting.rows, setting.keys) for setting in settings)]
        assert seen == [(True, (2, 5, 6, 64), torch.bfloat16, True, tile) for tile in tiles]


def test_what_cannot_be_compiled_ahead_is_left_for_the_call(monkeypatch):
    monkeypatch.setitem(sys.modules, "flash_attn.cute.interface", None)
    compile_ahead(SQUARE)


@SHAPES
def test_flashinfer_gets_tokens_of_all_sequences_in_a_row(torch, workload):
    def ragged(q, k, v):  # (tokens, heads, head_dim)
        w = workload
        turned = [x.unflatten(0, (w.batch, -1)).transpose(1, 2) for x in (q, k, v)]
        scale = 1 / math.sqrt(w.head_dim)
        return torch_attention(torch, *turned, scale=scale, causal=w.causal).transpose(1, 2).flatten(0, 1)

    check(torch, flashinfer._attention(ragged, workload, "fa2"), workload)


@SHAPES
def test_xformers_gets_grouped_heads_in_five_dimensions(torch, workload):
    bottom_right = object()

    def forward(q, k, v, attn_bias, scale, op):
        assert op is not None
        assert q.dim() == (5 if workload.gqa_ratio > 1 else 4)
        turned = [x.flatten(2, -2).transpose(1, 2) if x.dim() == 5 else x.transpose(1, 2) for x in (q, k, v)]
        causal = attn_bias is bottom_right
        return torch_attention(torch, *turned, scale=scale, causal=causal).transpose(1, 2).reshape(q.shape)

    library = types.SimpleNamespace(
        Inputs=lambda **asked: asked,
        _dispatch_fw=lambda inputs, needs_gradient: types.SimpleNamespace(NAME="flashF"),
        memory_efficient_attention_forward=forward,
        attn_bias=types.SimpleNamespace(
            LowerTriangularMask=lambda: bottom_right, LowerTriangularFromBottomRightMask=lambda: bottom_right
        ),
    )
    called = xformers._attention(library, workload)
    check(torch, called, workload)
    assert called.environment["operator"] == "flashF"


@SHAPES
@pytest.mark.parametrize("repeats", [False, True], ids=["native", "repeated"])
def test_torchs_own_attention_agrees_with_the_reference(torch, workload, repeats):
    called = sdpa._attention(torch, "sdpa_math", workload, repeats=repeats)
    check(torch, called, workload)


def is_refused_in_silence(call, tensors):
    """Whether the call raises, and nothing is warned of but what comes from elsewhere."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.resetwarnings()
        warnings.simplefilter("always")
        sdpa._let_refusals_be_told_by_evoflash()
        with pytest.raises(RuntimeError):
            call(*tensors)
        warnings.warn("of another file", stacklevel=1)
    return [str(each.message) for each in seen] == ["of another file"]


def test_a_backend_that_takes_no_such_shape_is_refused_without_pytorchs_warnings(torch):
    called = sdpa._attention(torch, "sdpa_flash", SINGLE, repeats=True)
    assert is_refused_in_silence(called.attend, drawn(torch, SINGLE))  # keys that were not repeated


def test_what_pytorch_warns_of_in_front_of_an_exception_is_not_shown():
    def refuse(q, k, v, **options):
        for reason in ("Flash attention kernel not used because:", "they have not the same num_heads"):
            warnings.warn(reason, stacklevel=2)  # as of the line that called
        raise RuntimeError("No available kernel.")

    kernels = types.SimpleNamespace(
        SDPBackend=types.SimpleNamespace(FLASH_ATTENTION=1), sdpa_kernel=lambda backends: nullcontext()
    )
    functional = types.SimpleNamespace(scaled_dot_product_attention=refuse)
    library = types.SimpleNamespace(nn=types.SimpleNamespace(functional=functional, attention=kernels))
    called = sdpa._attention(library, "sdpa_flash", SINGLE, repeats=False)
    assert is_refused_in_silence(called.attend, (None, None, None))


@pytest.mark.parametrize("head_dim", [16, 64, 96, 128, 192, 256])
def test_the_settings_to_try_begin_with_hoppers_default_and_fit(head_dim):
    tried = fa4.settings(head_dim)
    defaults = {16: "192x128", 64: "192x128", 96: "192x144, P in shared memory", 128: "128x128"}
    assert str(tried[0]) == (defaults | {192: "128x112", 256: "128x80"})[head_dim]
    assert len(tried) == len(set(tried)) >= 4
    for each in tried:
        assert each.rows % 64 == 0
        assert 2 * head_dim * (each.rows + 4 * each.keys) <= 224 * 1024


# Rows, tables, JSON


def test_a_row_has_the_mean_of_its_workloads_and_its_versions():
    timings = (timing_of(4.0), timing_of(9.0, "seed_long"), timing_of(3.0, protocol="final-hot"))
    problem = parse_problem("mission")
    both = type(problem)((*problem.workloads, *parse_problem("seed_long").workloads))
    row = row_of(report_of({"fa3": timings}), "fa3", problem=both, gpu="h200")
    assert row == Baseline("fa3", str(both), "h200", timings, 6.0, {"torch": "2.11.0", "layout": "views"})


def test_a_baseline_that_is_wrong_has_no_row_but_a_warning(caplog):
    wrong = {"fa3": (verdict_of(reason="rel. L2 2e-2 on needles"),)}
    report = report_of({"fa3": (timing_of(4.0),), "fa4": (timing_of(5.0),)}, wrong)
    found = baseline_times.times_of(report, parse_problem("mission"), "h200")
    assert [row.name for row in found.rows] == ["fa4"]
    assert found.wrong == {"fa3": "rel. L2 2e-2 on needles"}
    assert "baseline fa3 is left out, its own output fails the check: rel. L2 2e-2" in caplog.text


def test_a_baseline_absent_on_one_workload_has_no_row():
    problem = parse_problem("mission")
    both = type(problem)((*problem.workloads, *parse_problem("seed_long").workloads))
    report = report_of({"fa3": (timing_of(4.0),)}, absent={"fa3 on seed_long": "no kernel"})
    assert row_of(report, "fa3", problem=both, gpu="h200") is None


@pytest.fixture
def rivals():
    report = report_of(
        {"sdpa_flash": (timing_of(10.0), timing_of(9.0, protocol="final-hot")), "fa4": (timing_of(5.0),)},
        absent={"fa3 on mission": "flash_attn_3 is not installed"},
    )
    return baseline_times.times_of(report, parse_problem("mission"), "h200")


def test_json_has_a_row_for_each_baseline_and_protocol_fastest_first(rivals):
    found = json.loads(json.dumps(rivals.as_dict()))
    shown = [(row["name"], row["protocol"], row["over_fastest"]) for row in found["baselines"]]
    assert shown == [
        ("fa4", "final-cold", 1.0),
        ("sdpa_flash", "final-cold", 2.0),
        ("sdpa_flash", "final-hot", 1.0),
    ]
    assert found["baselines"][0]["tflops"] == pytest.approx(4 * 8 * 512 * 512 * 64 / 5.0 / 1e6)
    assert found["baselines"][0]["environment"]["torch"] == "2.11.0"
    assert found["absent"] == {"fa3 on mission": "flash_attn_3 is not installed"}


def test_tables_show_times_versions_and_what_is_absent(rivals):
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    baseline_report.print_baselines(rivals, console)
    text = console.export_text()
    assert text.index("fa4") < text.index("sdpa_flash")
    for piece in ("final-cold", "final-hot", "2.00", "torch 2.11.0", "flash_attn_3 is not installed"):
        assert piece in text


def test_names_are_chosen_in_table_order_and_misspelt_ones_refused():
    assert baseline_times.parse_names("") == NAMES
    assert baseline_times.parse_names("fa4, sdpa_flash") == ("sdpa_flash", "fa4")
    with pytest.raises(UsageError, match="no baseline is called 'fa5': use sdpa_flash"):
        baseline_times.parse_names("fa5")


# The store


def begin(store, strategy):
    key = RunKey(str(parse_problem("mission")), "h200", Basis.MEASURED, strategy, 0)
    return store.begin(key, gpu_hash="x", budget=0, argv=["baselines"], environment={}, fresh=True)


def test_timing_a_baseline_again_replaces_its_versions(tmp_path):
    problem = str(parse_problem("mission"))
    old = Baseline("fa4", problem, "h200", (timing_of(5.0),), 5.0, {"flash-attn-4": "1"})
    new = Baseline("fa4", problem, "h200", (timing_of(4.0),), 4.0, {"flash-attn-4": "2"})
    with open_store(str(tmp_path / "a.db")) as store:
        run = begin(store, "evolution")
        store.add_baseline(run, old)
        store.add_baseline(run, new)
        assert store.baselines(run) == [new]


def test_a_run_of_baselines_is_no_search(tmp_path):
    with open_store(str(tmp_path / "a.db")) as store:
        run = begin(store, baseline_times.STRATEGY)
        store.add_baseline(run, Baseline("fa4", run.key.problem, "h200", (timing_of(5.0),), 5.0))
        assert store.newest_history() == []
        with pytest.raises(NoKernelError, match="no search"):
            insights.read_insights(store)


def test_the_leaderboard_ranks_a_run_of_baselines(tmp_path):
    from evoflash.app import leaderboard

    with open_store(str(tmp_path / "a.db")) as store:
        run = begin(store, baseline_times.STRATEGY)
        for name, us in (("fa4", 5.0), ("sdpa_flash", 10.0)):
            store.add_baseline(run, Baseline(name, run.key.problem, "h200", (timing_of(us),), us))
        rows = leaderboard.read_rankings(store).as_dicts()
    assert [(row["name"], row["kind"], row["rank"]) for row in rows] == [
        ("fa4", "baseline", 1),
        ("sdpa_flash", "baseline", 2),
    ]


def test_the_commands_help_names_every_baseline():
    from evoflash.cli.commands import baselines as baselines_command

    said = textwrap.dedent(baselines_command.baselines.__doc__)
    assert [name for name in NAMES if name not in said] == []


# The command


@table_of_cases()
def test_the_command_ends_in_one_line_and_its_exit_code(arguments, code, said, tmp_path):
    done = evoflash("baselines", *arguments, "--db", str(tmp_path / "a.db"), CUDA_VISIBLE_DEVICES="")
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "a.db").exists()
