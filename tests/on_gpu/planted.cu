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
