"""A plain correct attention kernel with evoflash's ABI, and the same with one mistake planted in it."""

from evoflash.gpu.process.rungs import GpuTask
from evoflash.launch import LaunchConfig
from evoflash.operations.attention.workload import AttentionKey, AttentionWorkload

ROWS = 4  # query rows of a block, a warp each
BIG_HEADS = 64  # what a mistake "at size" takes for the benchmark's shape
HIDDEN_HEAD = 5  # of those: one that no sample holds

# FAULT picks a mistake; 0 is none. One warp walks one row's keys with an online softmax in fp32.
SOURCE = r"""
typedef unsigned short u16;
typedef long long i64;

#if BF16
__device__ float load(u16 x) { return __uint_as_float((unsigned)x << 16); }
__device__ u16 store(float x) { u16 y; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }
#else
__device__ float load(u16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y; }
__device__ u16 store(float x) { u16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }
#endif

#if FAULT == 8 || FAULT == 9 || FAULT == 11
__device__ unsigned launches;  // state that outlives a launch: what no honest kernel has
#endif

extern "C" __global__ void planted(const u16* q, u16* k, const u16* v, u16* o, float* lse,
    int seq_q, int seq_kv, int heads, int kv_heads,
    i64 qb, i64 qh, i64 qr, i64 kb, i64 kh, i64 kr, i64 vb, i64 vh, i64 vr, i64 ob, i64 oh, i64 orow,
    float scale)
{
    const int per_lane = D / 32, lane = threadIdx.x % 32;
    const int row = blockIdx.x * ROWS + threadIdx.x / 32, head = blockIdx.y, batch = blockIdx.z;
    const bool here = !AT_SIZE || heads == BIG_HEADS;
    if (row >= seq_q) return;
    const int kv_head = head / (heads / kv_heads);
    q += batch * qb + head * qh + row * qr;
    u16* out = o + batch * ob + head * oh + row * orow;
    k += batch * kb + kv_head * kh;
    v += batch * vb + kv_head * vh;

    int visible = CAUSAL ? min(max(row + 1 + seq_kv - seq_q, 0), seq_kv) : seq_kv;
#if FAULT == 5
    visible = max(visible - 1, 1);
#endif
#if FAULT == 9
    if (launches > 40) visible = (visible + 1) / 2;  // a check launches it less often, a timing more often
#endif
    float query[per_lane], sum[per_lane], top = -1.0f / 0.0f, total = 0.0f;
    for (int i = 0; i < per_lane; ++i) { query[i] = load(q[lane + 32 * i]); sum[i] = 0.0f; }
    for (int key = 0; key < visible; ++key) {
        float score = 0.0f;
        for (int i = 0; i < per_lane; ++i) score += query[i] * load(k[key * kr + lane + 32 * i]);
        for (int step = 16; step; step /= 2) score += __shfl_xor_sync(~0u, score, step);
        score *= scale;
        const float peak = fmaxf(top, score), fade = expf(top - peak), weight = expf(score - peak);
        total = total * fade + weight;
        for (int i = 0; i < per_lane; ++i)
            sum[i] = sum[i] * fade + weight * load(v[key * vr + lane + 32 * i]);
        top = peak;
    }
    for (int i = 0; i < per_lane; ++i) out[lane + 32 * i] = store(visible ? sum[i] / total : 0.0f);
    if (lane == 0 && lse) lse[(i64)(batch * heads + head) * seq_q + row] = visible ? top + logf(total) : top;

#if FAULT == 1
    if (here && row == 0 && head == 0 && batch == 0 && lane == 0) o[gridDim.z * ob + 3] = 1;
#elif FAULT == 2
    if (row == 0) o[1ll << 40] = 1;
#elif FAULT == 3
    while (*(volatile u16*)out != 0xfffe) ;
#elif FAULT == 4
    if (row == seq_q - 1) out[lane] = 0x7fff;
#elif FAULT == 6
    // By one head of those that share it: two changes would be none.
    if (here && row == 0 && lane == 0 && head % (heads / kv_heads) == 0) k[kr * (seq_kv - 1)] ^= 1;
#elif FAULT == 8
    if (here && lane == 0) out[0] = (u16)(out[0] ^ (launches & 1));
#elif FAULT == 12
    if (here && head == HIDDEN_HEAD && row == seq_q / 2) out[lane] = store(1.5f * sum[0] / total);
#elif FAULT == 13
    for (int i = 0; i < per_lane; ++i)
        if (row > 0 && qr != D) out[lane + 32 * i] = q[lane + 32 * i + row * (D - qr)];
#elif FAULT == 10
    if (here && head == HIDDEN_HEAD && row == seq_q / 2 && lane == 7) out[lane] = 0x7fff;
#elif FAULT == 11
    if (here && head == HIDDEN_HEAD && lane == 7) out[lane] = (u16)(out[lane] ^ (launches & 1));
#endif
#if FAULT == 8 || FAULT == 9 || FAULT == 11
    if (row == 0 && head == 0 && batch == 0 && lane == 0) launches += 1;
#endif
}
"""

FAULTS = {
    "none": 0,
    "writes just past O": 1,
    "writes far outside": 2,
    "never ends": 3,
    "leaves a NaN": 4,
    "drops the last key": 5,
    "writes into K": 6,
    "gives another result each time": 8,
    "is right only while it is checked": 9,
    "takes Q for dense": 13,
    "writes just past O at size": 101,
    "writes into K at size": 106,
    "leaves a NaN in one head at size": 110,
    "gives another result each time in one head at size": 111,
    "has one wrong row in one head at size": 112,
}


def build(folder, key: AttentionKey, fault: str) -> str:
    """Compile for one key; the cubin's path."""
    path = folder / f"{key}-{FAULTS[fault]}.cubin"
    if not path.exists():
        from cupy.cuda import nvrtc  # here: where CuPy is missing these tests are skipped, not broken

        program = nvrtc.createProgram(SOURCE, "planted.cu", [], [])
        numbers = {"D": key.head_dim, "BF16": key.dtype == "bf16", "CAUSAL": key.causal, "ROWS": ROWS}
        at_size, number = divmod(FAULTS[fault], 100)
        numbers |= {"FAULT": number, "AT_SIZE": at_size, "BIG_HEADS": BIG_HEADS, "HIDDEN_HEAD": HIDDEN_HEAD}
        defines = [f"-D{name}={int(value)}" for name, value in numbers.items()]
        try:
            nvrtc.compileProgram(program, ["-std=c++17", f"-arch={key.arch}", *defines])
        except nvrtc.NVRTCError:
            raise AssertionError(nvrtc.getProgramLog(program)) from None
        path.write_bytes(nvrtc.getCUBIN(program))
    return str(path)


def launches_of(
    workload: AttentionWorkload, *, smem_bytes=0, entry="planted", times=1
) -> tuple[LaunchConfig, ...]:
    grid = (-(-workload.seq_q // ROWS), workload.heads, workload.batch)
    return (LaunchConfig(entry, grid, (32 * ROWS, 1, 1), smem_bytes),) * times


def task_of(spec, folder, *, checks, timed=(), fault="none", name="", **launch) -> GpuTask:
    """A planted kernel as a task; `launch` goes to launches_of()."""
    keys = dict.fromkeys(workload.compile_key(spec.arch) for workload in (*checks, *timed))
    return GpuTask(
        genome_id=name or fault,
        spec=spec,
        cubins=tuple((key, build(folder, key, fault)) for key in keys),
        checks=tuple((workload, launches_of(workload, **launch)) for workload in checks),
        timed=tuple((workload, launches_of(workload, **launch)) for workload in timed),
        seed=20261121,
    )
