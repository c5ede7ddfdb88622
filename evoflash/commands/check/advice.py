"""What each kind of finding means and what to do about it: one table for `evoflash check`; finds nothing.

A kind is what the emulator's C++ calls it, or what check.py finds by itself: a wrong result, a slow access, a
message of the compilers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Advice:
    """A kind of finding, for people."""

    meaning: str  # one sentence
    remedy: str  # what to do
    second: str = "the other place"  # what stands on a report's second line
    severity: Severity = "error"
    stops: bool = False  # the rest of the launch was not run: its output says nothing


_BARRIER = (
    "syncthreads(), a named barrier (bar_arrive / bar_sync), or an mbarrier that is arrived at and waited for"
)
_UNKNOWN = Advice(
    "The emulator reports a kind that this table does not hold.",
    "The message says what it saw; please report the missing entry.",
)

KINDS: Mapping[str, Advice] = {
    # ---- what a call leaves behind
    "workspace-not-zeroed": Advice(
        "The kernel expects zeros in its workspace before a call, and leaves the next one something else.",
        "Whoever is the last to use a counter writes the zero back (atom_inc with a limit wraps by itself).",
    ),
    # ---- order of accesses
    "race-RAW": Advice(
        "A read is not ordered after the write whose value it needs: the GPU may give the old value.",
        f"Put a barrier between the write and the read that both threads pass: {_BARRIER}. Inside one "
        "warp syncwarp() does; a shuffle, a vote, ldmatrix or mma does not.",
        second="the write that it needs",
    ),
    "race-WAR": Advice(
        "A write is not ordered after an earlier read of the same bytes: a slow reader may see the new "
        "value.",
        "All readers must be done before the bytes are used again: a barrier after the last read, or, "
        "in a ring of stages, the stage's `empty` mbarrier, which consumers arrive at after their last "
        "read and the producer waits for before it refills. wgmma reads shared memory until wgmma_wait.",
        second="the read that may still be under way",
    ),
    "race-WAW": Advice(
        "Two writes to the same bytes are not ordered: either value may stay.",
        f"Let one thread write, or order the writes: {_BARRIER}. Check the index arithmetic if the two "
        "threads were meant to write different places.",
        second="the other write",
    ),
    "race-global": Advice(
        "Two threads access the same global bytes without an order between them, and one of them writes.",
        "Between blocks: write, fence_gpu(), then red_add_release or stg_release on a flag; the reader "
        "polls the flag with ldg_acquire. Inside a block a barrier does.",
        second="the other access",
    ),
    "double-write-global": Advice(
        "Two threads write the same element of an output.",
        "Check the row and column arithmetic and the predicate of the store: each element has one "
        "owner. Sums of several threads need an atomic, or a workspace and a second step.",
        second="the other write",
    ),
    "missing-grid-wait": Advice(
        "A dependent launch reads what the launch before it writes, without grid_wait().",
        "Call grid_wait() in every thread before its first access to the earlier kernel's output.",
        second="the write of the earlier launch",
    ),
    # ---- asynchronous copies
    "async-not-waited": Advice(
        "Bytes are read while an asynchronous copy into them is under way.",
        "Wait for the copy: cp_async_wait<N>() with N = the groups that may stay under way, or "
        "mbar_wait on the barrier that the TMA load completes; then a barrier, because a wait covers "
        "only the thread's own cp.async copies. Check that each group is committed.",
        second="where the copy was started",
    ),
    "async-overwrite": Advice(
        "Bytes are written while an asynchronous copy into them is under way.",
        "Wait for the copy before its bytes are reused, or copy into another stage of the ring.",
        second="where the copy was started",
    ),
    "async-at-exit": Advice(
        "A thread ends while its asynchronous copies are under way.",
        "Wait for everything before the end (cp_async_wait<0>(), bulk_wait<0>()), or do not start the "
        "copy: a prefetch beyond the last tile is the usual cause.",
        second="the mbarrier that it completes",
    ),
    "missing-proxy-fence": Advice(
        "Bytes written by ordinary stores are read by the asynchronous proxy (TMA, wgmma) without a "
        "proxy fence.",
        "Each writing thread calls fence_proxy_async() after its stores and before the barrier; then "
        "one thread starts the copy. After mbar_init it is fence_mbar_init().",
        second="the ordinary write",
    ),
    "tensor-map": Advice(
        "A tensor map, or a TMA copy with it, is not legal as given.",
        "A map is a kernel parameter (EF_TMAP) or lies in global memory. Shared addresses are 128-byte "
        "aligned (1024 with the 128-byte swizzle), the inner box is a multiple of 16 bytes and fits the "
        "swizzle, base and strides are multiples of 16 bytes. A box begins at a multiple of 16 bytes of "
        "its row; one that is stored or added begins at no negative coordinate.",
        stops=True,
    ),
    "bulk-size": Advice(
        "A bulk copy is not of a multiple of 16 bytes.",
        "Round the rows up to 16 bytes, or copy the rest with ordinary accesses.",
    ),
    # ---- mbarriers
    "mbarrier-uninit": Advice(
        "An mbarrier is used where none was made, or after it was invalidated.",
        "One thread calls mbar_init on every barrier before the first use; check the address arithmetic "
        "(8 bytes each).",
        second="where it was invalidated",
        stops=True,
    ),
    "mbarrier-reinit": Advice(
        "An mbarrier is made where there is one already.",
        "One thread makes it, once; mbar_inval() comes before its bytes are used again.",
        second="where it was made",
        stops=True,
    ),
    "mbarrier-inval": Advice(
        "An mbarrier is invalidated that threads wait for or that copies will complete.",
        "Wait for its last phase first, then put a barrier between the waiters and mbar_inval().",
        second="where it was made",
        stops=True,
    ),
    "mbarrier-count": Advice(
        "An arrival count is out of range.",
        "Counts are 1 to 2^20 - 1, both in mbar_init and of arrivals at once.",
        second="where it was made",
        stops=True,
    ),
    "mbarrier-parity": Advice(
        "A wait names a parity that is neither 0 nor 1.",
        "The parity is the lowest bit of the phase's number: (step / stages) & 1.",
        second="where the barrier was made",
        stops=True,
    ),
    "mbarrier-init-race": Advice(
        "An mbarrier is used by a thread that is not ordered after its initialisation.",
        "After mbar_init: fence_mbar_init(), then syncthreads() (cluster_sync() when other blocks "
        "arrive at it), and only then the first arrive, copy or wait.",
        second="where the barrier was made",
    ),
    "mbarrier-tx": Advice(
        "An mbarrier's byte count does not come out: copies bring more or fewer bytes than were announced.",
        "mbar_arrive_expect_tx must announce exactly the bytes of all copies of the phase, boxes that "
        "reach out of bounds at their full size, and with multicast on the barrier of each receiving "
        "block.",
        second="where the bytes were announced, or the barrier was made",
    ),
    "mbarrier-overarrive": Advice(
        "More threads arrive at an mbarrier in one phase than its count.",
        "The count in mbar_init must be the arrivals of one phase: 1 for a producer thread, one for "
        "each warp or each thread of the consumers, as they call mbar_arrive. Check that a producer "
        "waits for `empty`.",
        second="where the barrier was made",
        stops=True,
    ),
    "mbarrier-lapped": Advice(
        "A thread waits for a parity whose phase came round again: it may miss a phase or go on too early.",
        "The parity flips each time the ring's stage comes round ((step / stages) & 1); a producer's "
        "first wait on a fresh `empty` barrier uses parity 1. No one may be two phases ahead of "
        "another.",
        second="where the barrier was made",
        stops=True,
    ),
    "mbarrier-as-data": Advice(
        "The bytes of a live mbarrier are read or written as data.",
        "Give barriers bytes of their own, or mbar_inval() them first. Check the sizes in the "
        "shared-memory plan.",
        second="where the barrier was made",
    ),
    # ---- wgmma
    "missing-wgmma-fence": Advice(
        "Registers of a wgmma were touched since the last wgmma_fence(): the instruction may see old values.",
        "Call wgmma_fence() after the last ordinary access to the accumulator or to A's registers and "
        "before the first wgmma that uses them.",
        second="the access",
    ),
    "wgmma-acc-not-waited": Advice(
        "An accumulator is accessed while a wgmma on it is under way.",
        "wgmma_commit(), then wgmma_wait<N>() with N = the newer groups that may stay under way, before "
        "the first access. ptxas repairs some of these by serialising (C7514, C7517): slow, but silent.",
        second="where the wgmma was issued",
    ),
    "wgmma-a-in-flight": Advice(
        "The registers that hold operand A are changed while the wgmma that reads them is under way.",
        "Use two sets of registers in turn, or wgmma_wait before they are overwritten.",
        second="where the wgmma was issued",
    ),
    "wgmma-descriptor": Advice(
        "A wgmma descriptor does not describe a legal matrix in shared memory.",
        "The start is aligned to the swizzle's pattern (1024, 512 or 256 bytes for 128, 64 or 32), the "
        "leading and stride offsets fit the operand's major-ness, and the swizzle is the one of the TMA "
        "load.",
    ),
    "setmaxnreg": Advice(
        "Register counts given to setmaxnreg cannot be met.",
        "Counts are multiples of 8 from 24 to 256; all warps of a warp group execute it; the sum over the "
        "block's warps, times 32, must fit the registers that the launch was given.",
        second="the other warp, or the one before",
    ),
    # ---- clusters
    "cluster-barrier": Advice(
        "A cluster barrier is used out of order: arrive and wait must alternate in every thread.",
        "cluster_arrive() once, then cluster_wait() once, in all threads of all blocks; or cluster_sync().",
        second="the other use",
        stops=True,
    ),
    "cluster-rank": Advice(
        "An address or a rank names a block that the cluster does not have, or target and barrier "
        "differ in it.",
        "Ranks are 0 to cluster_size() - 1; map addresses of the block's own shared memory only; a copy "
        "and the mbarrier that it completes are in one block.",
    ),
    "dsmem-not-started": Advice(
        "Shared memory of a block of the cluster is accessed before that block is known to have begun.",
        "cluster_sync() once at the start, before the first remote access.",
    ),
    "dsmem-exited": Advice(
        "Shared memory of a block of the cluster is accessed when that block may have ended.",
        "Let every block of the cluster pass cluster_sync() after the last remote access and before it ends.",
        second="the end of that block",
    ),
    # ---- never ending
    "DEADLOCK": Advice(
        "No thread can go on, and nothing is under way that could wake one: a GPU hangs here.",
        "Each group waits for something that the others do not do. Look for a barrier count that "
        "is not the number of threads that come, a wrong parity, bytes that were announced and not "
        "copied, a barrier inside a branch that not all threads take.",
        stops=True,
    ),
    "LIVELOCK": Advice(
        "Every thread polls memory that nobody will change: a GPU hangs here.",
        "The flag is never set, or by a thread that is itself waiting. Across blocks: the setter may "
        "not be resident yet.",
        stops=True,
    ),
    "TIMEOUT": Advice(
        "The emulator's CPU limit passed: a loop does not end, or the shape is large.",
        "Check the loop's condition at the line named; a healthy kernel takes far less on these shapes.",
        stops=True,
    ),
    "divergence": Advice(
        "Lanes of one warp do not meet at a warp-wide operation, or come to it from different lines.",
        "All 32 lanes must execute the same call: move it out of the branch, and predicate its data "
        "instead. No lane may return before.",
        second="where the other lanes are",
        stops=True,
    ),
    "named-barrier": Advice(
        "A named barrier is used with an illegal number or count, or again before its round is over.",
        "Numbers are 0 to 15 (0 is syncthreads), counts multiples of 32 that are the same at every "
        "arrive and sync of a round: arriving plus waiting threads. A warp arrives once in a round, and "
        "again only when it knows that the round is over: wait for the others first.",
        second="the other use",
        stops=True,
    ),
    # ---- bounds
    "OOB-shared": Advice(
        "An access is outside of the block's shared memory.",
        "Check the offset, and that the launch asks for as many bytes as the layout needs (stages x "
        "tiles x padding).",
    ),
    "OOB-global": Advice(
        "An access is outside of every buffer.",
        "The tail: predicate the access with row < length, or use the zfill form, whose address must stay "
        "inside even where nothing is read.",
    ),
    "OOB-raw": Advice(
        "A plain pointer access, not through ef::, is outside of every buffer.",
        "Predicate it, and use ldg / stg: then its alignment is checked and it is counted, too.",
        stops=True,
    ),
    "misaligned-shared": Advice(
        "A shared address is not a multiple of the access's size.",
        "Make every offset, pitch and padding a multiple of the access (16 bytes for ldmatrix and cp.async).",
    ),
    "misaligned-global": Advice(
        "A global address is not a multiple of the access's size.",
        "Use a narrower access where strides or offsets allow no better.",
    ),
    "write-to-input": Advice(
        "An input is written.",
        "Check the pointer: outputs come after inputs in the argument list.",
    ),
    "array-bounds": Advice(
        "A local array is indexed outside of its bounds: on a GPU that reads or overwrites other registers.",
        "Check the loop bounds against the array's size.",
        stops=True,
    ),
    "uninit-shared": Advice(
        "Shared memory is read that nobody has written.",
        "Find who should have written these bytes: a tile's tail that no thread copies, a stage used "
        "one step early, a missing zero fill.",
    ),
    "uninit-global": Advice(
        "Global memory is read that no kernel has written: scratch, or an output.",
        "Find who should have written it: a split without work must still write its part, or the reader "
        "must not read it.",
    ),
    "static-shared": Advice(
        "Static shared memory is allocated twice, or more than 48 KiB of it.",
        "One smem_static for the whole kernel; more than 48 KiB must be dynamic (smem_base, the "
        "launch's smem).",
    ),
    "stack-overflow": Advice(
        "A thread needs more stack than the emulator gives it.",
        "Local arrays of this size would be local memory on a GPU, and slow: make them smaller.",
        stops=True,
    ),
    "divide-by-zero": Advice(
        "An integer is divided by zero; a GPU gives an unspecified value.",
        "Guard the division: a length or a count of this shape is 0.",
        stops=True,
    ),
    "emulator-limit": Advice(
        "A limit of the emulator was reached; what follows is not checked as closely.",
        "Check a smaller shape.",
        severity="warning",
    ),
    # ---- found by check.py
    "wrong-result": Advice(
        "The output is not what attention gives.",
        "With no other finding the synchronisation is right and the arithmetic is not: masks, the tail, "
        "the rescaling of earlier sums, or a descriptor that names the wrong bytes. The rows and "
        "columns that are wrong usually name the tile.",
    ),
    "schedule-dependent": Advice(
        "The same inputs give different outputs when threads or copies are timed differently.",
        "Without another finding: floating-point atomics, whose order is free, or a race through plain "
        "pointers, which the emulator cannot see.",
        severity="warning",
    ),
    "unwritten-output": Advice(
        "Elements of an output still hold the poison that they were filled with.",
        "Check grid and predicate of the store. If they are meant to stay, fill the array with zeros.",
        severity="warning",
    ),
    "crash": Advice(
        "The process that ran the kernel died: the kernel wrote where the emulator itself lives.",
        "Raw pointers into shared memory or past a buffer's guard pages do that: use lds / sts, ldg / stg.",
        stops=True,
    ),
    "hang": Advice(
        "The process that ran the kernel gave no answer and was killed.",
        "Look for a loop without any primitive in it.",
        stops=True,
    ),
    "compile": Advice(
        "g++, which builds kernels for the emulator, refuses the text.",
        'Kernels are checked when they use #include "ef.h" and its primitives: plain C++17, no CUDA '
        "headers, no CUDA intrinsics; host code stands under `#if defined(__CUDACC__) && "
        "!defined(__CUDACC_RTC__)`.",
    ),
    "nvrtc": Advice(
        "NVRTC refuses the text for this GPU.",
        "The text is fine for g++; the message is NVRTC's.",
    ),
    "cannot-launch": Advice(
        "The GPU has no room for the launch: it is refused there.",
        "Smaller tiles, fewer stages, a smaller cluster, or fewer blocks where they wait for one another.",
    ),
    "unseen": Advice(
        "The emulator cannot see what this does: faults in it are not found.",
        "Use the ef:: primitive for it (smem_base / smem_static with lds and sts, syncthreads, "
        "shfl_xor, atom_add ...).",
        severity="warning",
    ),
    "bank-conflict": Advice(
        "Lanes of a warp need different words of one bank: the access takes several passes.",
        "Swizzle the 16-byte chunk with the row (chunk ^ row % 8), or pad the row's pitch by 16 bytes.",
        severity="warning",
    ),
    "uncoalesced": Advice(
        "A warp's global access touches more 32-byte sectors than its bytes need.",
        "Let neighbouring lanes access neighbouring addresses, 16 bytes each where possible.",
        severity="warning",
    ),
    "spills": Advice(
        "Registers do not suffice: values are kept in local memory.",
        "Smaller tiles per warp, less unrolling, or fewer blocks per SM in __launch_bounds__.",
        severity="warning",
    ),
    "wgmma-serialized": Advice(
        "ptxas makes wgmma instructions wait for each other: right, but without overlap.",
        "Its message says why. Usual causes: accumulator or A registers touched between issue and wait "
        "(move it behind wgmma_wait), a function call in between, or a loop that is not unrolled.",
        severity="warning",
    ),
    "ptxas": Advice(
        "ptxas warns.",
        "The message is ptxas's.",
        severity="warning",
    ),
}


def advice(kind: str) -> Advice:
    """What is known about a kind; a kind without an entry says so."""
    return KINDS.get(kind, _UNKNOWN)
