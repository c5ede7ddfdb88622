"""The exported file: complete, reproducible, and compiled here by NVRTC without any -I."""

import itertools
import re
import shlex

import numpy as np
import pytest
from nvrtc_texts import compiled

from evoflash.champions import read_champions
from evoflash.errors import UsageError
from evoflash.kernels.family import load_family
from evoflash.kernels.standalone import export_kernel, reproducing_command
from evoflash.paths import CHAMPIONS
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu


def exported(problem: str, gpu: str = "l4", **values) -> str:
    what, spec = parse_problem(problem), load_gpu(gpu)
    genome = load_family("flash_mma").space(what.compile_keys(spec.arch), spec).genome(values)
    return export_kernel(genome, what, spec)


@pytest.mark.parametrize(
    ("problem", "gpu"),
    [("mission", "l4"), ("mission,causal,dtype=bf16", "a100"), ("gqa4k_d128,causal", "h200")],
)
def test_the_file_compiles_with_nvrtc_and_no_include_path(problem, gpu):
    compiled(exported(problem, gpu, warps=4, rescale="lazy"), load_gpu(gpu).arch)


def test_the_file_holds_only_the_primitives_that_the_kernel_uses():
    text = exported("mission", warps=4, rescale="online", epilogue="direct")

    assert "mma_m16n8k16" in text
    for unused in ("bar_arrive", "unpack2", "any_sync", "u32x4 lds", "ef.h", "bf16.bf16"):
        assert unused not in text


def test_the_banner_names_the_command_that_prints_the_same_bytes():
    text = exported("mission,causal", warps=2, rescale="lazy")
    (line,) = re.findall(r"^// (evoflash export .*)$", text, flags=re.MULTILINE)
    words = shlex.split(line)
    values = dict(word.split("=") for flag, word in itertools.pairwise(words) if flag == "--set")
    problem, gpu = words[words.index("--problem") + 1], words[words.index("--gpu") + 1]

    again = exported(problem, gpu, **{k: int(v) if v.isdigit() else v for k, v in values.items()})

    assert again == text


@pytest.mark.parametrize("champion", read_champions(CHAMPIONS / "h200.toml"), ids=lambda c: c.problem)
@pytest.mark.sample(4)
def test_every_archived_kernel_can_be_exported(champion):
    what, spec = parse_problem(champion.problem), load_gpu("h200")
    space = load_family(champion.genome.family).space(what.compile_keys(spec.arch), spec)

    text = export_kernel(space.genome(champion.genome.as_dict()), what, spec)

    assert f"{champion.genome.family}_forward(const evoflash_attention_args* args, " in text
    takes_one = "u32* workspace" in text or "float* workspace" in text
    assert ("Scratch{args.workspace}" in text) == takes_one
    assert ("  return 0;\n}\n\nint check_memory" in text) != takes_one


def test_scratch_of_pieces_handed_out_is_four_bytes():
    what, spec = parse_problem("s2k_d128"), load_gpu("h200")
    space = load_family("flash_wgmma").space(what.compile_keys(spec.arch), spec)

    text = export_kernel(space.genome({"schedule": "dynamic", "consumers": 2}), what, spec)

    assert re.search(r"^long long workspace_bytes\([^)]*\) \{[^}]*return 4;", text, re.MULTILINE)


def test_split_keys_are_exported_with_both_kernels_and_their_scratch():
    what, spec = parse_problem("decode8k"), load_gpu("h200")
    space = load_family("flash_wgmma").space(what.compile_keys(spec.arch), spec)

    text = export_kernel(space.genome({"kv_splits": 4, "consumers": 1, "pack_gqa": "on"}), what, spec)

    compiled(text, "sm_90a")
    assert text.count("EF_EXPORT_KERNEL(") == 3  # the macro, and two kernels
    first, second = r"launch\(flash_wgmma, grids\[0\]", r"launch\(flash_wgmma_combine, grids\[1\]"
    assert re.search(rf"{first}[^;]* return error;\n  return {second}", text)
    assert "return 4 * 4 * batch * heads * seq_q * (128 + 1);" in text


def test_a_problem_that_needs_several_kernels_is_refused():
    with pytest.raises(UsageError, match="2 different kernels"):
        exported("mission+mission,causal")


def test_the_command_is_one_shell_line():
    what, spec = parse_problem("mission"), load_gpu("l4")
    genome = load_family("flash_mma").space(what.compile_keys(spec.arch), spec).genome({})

    command = reproducing_command(genome, what, spec)

    assert "\n" not in command
    assert shlex.split(command)[:2] == ["evoflash", "export"]


def test_a_prefix_is_part_of_the_command_and_changes_no_line_but_those_with_names():
    what, spec = parse_problem("decode8k"), load_gpu("h200")
    genome = load_family("flash_mma").space(what.compile_keys(spec.arch), spec).genome({"kv_splits": 4})

    plain, named = export_kernel(genome, what, spec), export_kernel(genome, what, spec, prefix="decode")

    (command,) = re.findall(r"^// (evoflash export .*)$", named, flags=re.MULTILINE)
    assert command == reproducing_command(genome, what, spec, prefix="decode")
    assert command.endswith(" --prefix decode")
    pairs = zip(plain.splitlines(), named.splitlines(), strict=True)
    assert all("flash_mma" in one and "decode" in other for one, other in pairs if one != other)


@pytest.mark.parametrize("prefix", ["", "1st", "two words", "a-b", "_x", "x;", "größe"])
def test_a_prefix_that_begins_no_name_of_c_is_refused(prefix):
    what, spec = parse_problem("mission"), load_gpu("l4")
    genome = load_family("flash_mma").space(what.compile_keys(spec.arch), spec).genome({})

    with pytest.raises(UsageError, match="letters, digits and _, a letter first"):
        export_kernel(genome, what, spec, prefix=prefix)


@pytest.mark.parametrize(
    "family",
    ["decode_dense", "flash_cluster", "flash_direct", "flash_mma", "flash_simt", "flash_wgmma", "flash_wmma"],
)
@pytest.mark.sample(2)
def test_statements_are_indented_as_their_blocks_say(family):
    what, spec = parse_problem("gqa4k_d128,causal"), load_gpu("h200")
    space = load_family(family).space(what.compile_keys(spec.arch), spec)
    rng = np.random.default_rng(1)
    drawn = [values for values in (space.draw(rng) for _ in range(2000)) if values][:6]
    for genome in (*load_family(family).seeds_for(what, space, spec)[:4], *drawn):
        assert misindented(export_kernel(genome, what, spec)) == [], genome


def misindented(text: str) -> list[str]:
    """Statements that begin elsewhere than two columns within the line that opened their block."""
    found: list[str] = []
    blocks: list[int | None] = [0]  # where the statements of each open block begin; None: an initialiser
    begun, is_new = "", True
    for line in re.sub(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"', "''", text).splitlines():
        if not line.replace("''", "").strip() or line.startswith("#") or line.endswith("\\"):
            continue
        begun = f"{begun} {line.strip()}" if begun else line.replace("''", "").rstrip()
        if begun.count("(") != begun.count(")"):
            continue  # goes on in the next line
        line, begun = begun, ""
        indent, body = len(line) - len(line.lstrip()), line.lstrip(" }")
        closed = len(re.match(r" *(}*)", line)[1])
        del blocks[len(blocks) - closed :]
        is_label = body.startswith(("case ", "default:"))
        if is_new and not closed and not is_label and blocks[-1] not in (None, indent):
            found.append(line)
        opened = body.count("{") - body.count("}")
        if opened > 0:
            is_scope = body.startswith(("namespace", "extern  {"))
            is_block = re.match(r"struct|union|typedef|enum|else|do\b", body)
            is_list = re.search(r"(?:=|\w) ?\{$", body) and not is_block
            blocks += [None if is_list and not is_scope else indent + (0 if is_scope else 2)] * opened
        elif opened < 0:
            del blocks[opened:]
        is_new = line.endswith((";", "{", "}"))
    return found


def test_a_statement_at_the_wrong_place_is_seen():
    right = "void f() {\n  for (;;) {\n    g();\n  }\n}\n"

    assert misindented(right) == []
    assert misindented(right.replace("    g", "  g")) == ["  g();"]
    assert misindented(right.replace("  for", "    for"))[:1] == ["    for (;;) {"]
