// Attention on paged keys as it should be, in fp64, behind the launch struct and the text of right_rows.cu: reference.py
// launches it. Lengths, tables and strides are the call's own, read as a kernel reads them.

// Some of the rows, of all heads that share them, of one sequence's keys of one head.
struct Paged {
  const evoflash_paged_args* args;
  const u32* q;  // of the sequence
  const int *pages, *pages_of_values;
  int first, token, head, keys, rows, ratio, count, begin, end;

  __device__ __forceinline__ int row_of(int row) const { return (first + row) / ratio; }
  __device__ __forceinline__ int head_of(int row) const { return head * ratio + (first + row) % ratio; }
  __device__ __forceinline__ const u32* query(int row) const {
    return q + (row_of(row) * args->q_strides[1] + head_of(row) * args->q_strides[2]) / 2;
  }
  __device__ __forceinline__ const u32* slot_of(const void* pool, const int* of, const i64* strides, int at) const {
    const i64 page = ef::ldg(of + at / args->page_size);
    return static_cast<const u32*>(pool) + (page * strides[0] + head * strides[1] + at % args->page_size * strides[2]) / 2;
  }
  __device__ __forceinline__ const u32* key(int at) const { return slot_of(args->k, pages, args->k_strides, at); }
  __device__ __forceinline__ const u32* value(int at) const {
    return slot_of(args->v, pages_of_values, args->v_strides, at);
  }
  __device__ __forceinline__ int behind(int row) const {
    const int behind = keys - rows + row_of(row) + 1;
    return behind < 0 ? 0 : behind;
  }
  __device__ __forceinline__ int oldest(int row) const {
    const int oldest = args->window_left < 0 ? 0 : behind(row) - 1 - args->window_left;
    return oldest < 0 ? 0 : oldest;
  }
  __device__ __forceinline__ double score(double product) const {
    const double score = product * args->scale;
    return (args->softcap > 0 ? args->softcap * tanh_of(score / args->softcap) : score) * kLog2e;
  }
  __device__ __forceinline__ double sink(int row) const {
    if (!args->sinks) return ef::neg_inf();
    if (args->sink_dtype == kBf16) {
      return ef::to_f32(ef::ldg(static_cast<const ef::bf16*>(args->sinks) + head_of(row))) * kLog2e;
    }
    return ef::ldg(static_cast<const float*>(args->sinks) + head_of(row)) * kLog2e;
  }
  __device__ __forceinline__ i64 place(int row) const {
    return static_cast<i64>(token + row_of(row)) * args->heads + head_of(row);
  }
};

// `places` holds of each block its sequence, its head of keys, and the first of its rows, heads counted innermost.
extern "C" __global__ void __launch_bounds__(kThreads)
right_paged_rows(const evoflash_paged_args args, const int* places, float* right, double* numbers, float* per_row) {
  const int sequence = ef::ldg(places + 3 * blockIdx.x);
  Paged call = {&args};
  call.head = ef::ldg(places + 3 * blockIdx.x + 1), call.first = ef::ldg(places + 3 * blockIdx.x + 2);
  call.ratio = args.heads / args.kv_heads;
  call.token = args.q_indptr ? ef::ldg(args.q_indptr + sequence) : sequence * args.max_seq_q;
  call.rows = args.q_indptr ? ef::ldg(args.q_indptr + sequence + 1) - call.token : args.max_seq_q;
  const int left = call.rows * call.ratio - call.first;
  if (left <= 0) return;
  call.count = left < kRows ? left : kRows;
  const i64 entries = args.page_indptr ? ef::ldg(args.page_indptr + sequence) : sequence * args.page_table_stride;
  call.pages = args.page_table + entries;
  call.pages_of_values = call.pages + args.page_table_v_offset;
  if (args.kv_lengths) {
    call.keys = ef::ldg(args.kv_lengths + sequence) + args.kv_length_bias;
    if (call.keys < 0) call.keys = 0;
  } else {
    const int pages = ef::ldg(args.page_indptr + sequence + 1) - static_cast<int>(entries);
    call.keys = pages > 0 ? (pages - 1) * args.page_size + ef::ldg(args.last_page_len + sequence) : 0;
  }
  const i64 before = args.q_indptr ? call.token * args.q_strides[1] : sequence * args.q_strides[0];
  call.q = static_cast<const u32*>(args.q) + before / 2;
  call.begin = call.oldest(0), call.end = call.behind(call.count - 1);
  const float factor = args.v_factor == 0 ? 1.0f : args.v_factor;
  const double unit = args.lse_base == 2 ? 1.0 : kLn2;
  compute_rows<double>(call, {args.head_dim / 2, args.dtype == kBf16, right, numbers, per_row, factor, unit});
}
EF_EXPORT_KERNEL(right_paged_rows)
