// Attention on dense tensors as it should be, in fp32, behind the text of right_rows.cu: reference.py launches it.

// Some rows of one head.
struct Dense {
  const u32 *q, *k, *v;  // of the head, and of its keys and values
  i64 stored;
  int first, seq_q, seq_kv, words, is_causal, count, begin, end;
  float factor;

  __device__ __forceinline__ const u32* query(int row) const { return q + static_cast<i64>(first + row) * words; }
  __device__ __forceinline__ const u32* key(int at) const { return k + static_cast<i64>(at) * words; }
  __device__ __forceinline__ const u32* value(int at) const { return v + static_cast<i64>(at) * words; }
  __device__ __forceinline__ int oldest(int) const { return 0; }
  __device__ __forceinline__ int behind(int row) const {
    const int behind = is_causal ? first + row + 1 + seq_kv - seq_q : seq_kv;
    return behind < 0 ? 0 : behind;
  }
  __device__ __forceinline__ float score(float product) const { return product * factor; }
  __device__ __forceinline__ float sink(int) const { return ef::neg_inf(); }
  __device__ __forceinline__ i64 place(int row) const { return stored + row; }
};

// `places` holds of each block its head (counted through all batches), its first row, and where its rows are stored; those
// past the last query are not.
extern "C" __global__ void __launch_bounds__(kThreads)
right_rows(const u32* q, const u32* k, const u32* v, const int* places, float* right, double* numbers, float* per_row,
           int seq_q, int seq_kv, int heads, int kv_heads, int head_dim, int is_bf16, int is_causal, float scale) {
  const i64 group = ef::ldg(places + 3 * blockIdx.x);
  const int first = ef::ldg(places + 3 * blockIdx.x + 1), words = head_dim / 2;
  const int head = static_cast<int>(group % heads);
  const i64 keys = (group / heads * kv_heads + head / (heads / kv_heads)) * seq_kv * words;
  Dense call = {q + group * seq_q * words, k + keys, v + keys};
  call.stored = ef::ldg(places + 3 * blockIdx.x + 2);
  call.first = first, call.seq_q = seq_q, call.seq_kv = seq_kv, call.words = words, call.is_causal = is_causal;
  call.count = seq_q - first < kRows ? seq_q - first : kRows;
  call.begin = 0, call.end = call.behind(call.count - 1);
  call.factor = scale * static_cast<float>(kLog2e);
  compute_rows<float>(call, {words, is_bf16 != 0, right, numbers, per_row, 1.0f, kLn2});
}
EF_EXPORT_KERNEL(right_rows)
