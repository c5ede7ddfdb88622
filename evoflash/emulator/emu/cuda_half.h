// half and bfloat16 of plain CUDA (cuda_fp16.h, cuda_bf16.h): types, conversions and arithmetic, each result rounded
// once to nearest. Included by cuda_names.h.
#pragma once

struct __half_raw { unsigned short x; };
struct __half {
  unsigned short __x;

  __half() = default;
  EFEMU_HERE __half(const __half_raw& bits) : __x(bits.x) {}
  EFEMU_HERE __half(float value) : __x(::efemu::float_to_f16(value)) {}
  EFEMU_HERE __half(double value) : __x(::efemu::float_to_f16(static_cast<float>(value))) {}
  EFEMU_HERE __half(int value) : __x(::efemu::float_to_f16(static_cast<float>(value))) {}
  EFEMU_HERE __half(unsigned value) : __x(::efemu::float_to_f16(static_cast<float>(value))) {}
  EFEMU_HERE __half(long long value) : __x(::efemu::float_to_f16(static_cast<float>(value))) {}
  EFEMU_HERE __half(unsigned long long value) : __x(::efemu::float_to_f16(static_cast<float>(value))) {}
  EFEMU_HERE __half(long value) : __x(::efemu::float_to_f16(static_cast<float>(value))) {}
  EFEMU_HERE operator float() const { return ::efemu::f16_to_float(__x); }
  EFEMU_HERE operator __half_raw() const { return {__x}; }
  EFEMU_HERE __half& operator=(float value) { __x = ::efemu::float_to_f16(value); return *this; }
  EFEMU_HERE __half& operator=(double value) { __x = ::efemu::float_to_f16(static_cast<float>(value)); return *this; }
};
struct alignas(4) __half2 {
  __half x, y;

  __half2() = default;
  EFEMU_HERE __half2(const __half& lo, const __half& hi) : x(lo), y(hi) {}
};
EFEMU_HERE __half operator+(const __half& a, const __half& b) { return __half(static_cast<float>(a) + static_cast<float>(b)); }
EFEMU_HERE __half& operator+=(__half& a, const __half& b) { return a = a + b; }
EFEMU_HERE __half2 operator+(const __half2& a, const __half2& b) { return __half2(a.x + b.x, a.y + b.y); }
EFEMU_HERE __half2& operator+=(__half2& a, const __half2& b) { return a = a + b; }
EFEMU_HERE __half operator-(const __half& a, const __half& b) { return __half(static_cast<float>(a) - static_cast<float>(b)); }
EFEMU_HERE __half& operator-=(__half& a, const __half& b) { return a = a - b; }
EFEMU_HERE __half2 operator-(const __half2& a, const __half2& b) { return __half2(a.x - b.x, a.y - b.y); }
EFEMU_HERE __half2& operator-=(__half2& a, const __half2& b) { return a = a - b; }
EFEMU_HERE __half operator*(const __half& a, const __half& b) { return __half(static_cast<float>(a) * static_cast<float>(b)); }
EFEMU_HERE __half& operator*=(__half& a, const __half& b) { return a = a * b; }
EFEMU_HERE __half2 operator*(const __half2& a, const __half2& b) { return __half2(a.x * b.x, a.y * b.y); }
EFEMU_HERE __half2& operator*=(__half2& a, const __half2& b) { return a = a * b; }
EFEMU_HERE __half operator/(const __half& a, const __half& b) { return __half(static_cast<float>(a) / static_cast<float>(b)); }
EFEMU_HERE __half& operator/=(__half& a, const __half& b) { return a = a / b; }
EFEMU_HERE __half2 operator/(const __half2& a, const __half2& b) { return __half2(a.x / b.x, a.y / b.y); }
EFEMU_HERE __half2& operator/=(__half2& a, const __half2& b) { return a = a / b; }
EFEMU_HERE __half operator-(const __half& a) { return __half(-static_cast<float>(a)); }
EFEMU_HERE bool operator<(const __half& a, const __half& b) { return static_cast<float>(a) < static_cast<float>(b); }
EFEMU_HERE bool operator>(const __half& a, const __half& b) { return static_cast<float>(a) > static_cast<float>(b); }
EFEMU_HERE bool operator<=(const __half& a, const __half& b) { return static_cast<float>(a) <= static_cast<float>(b); }
EFEMU_HERE bool operator>=(const __half& a, const __half& b) { return static_cast<float>(a) >= static_cast<float>(b); }
EFEMU_HERE bool operator==(const __half& a, const __half& b) { return static_cast<float>(a) == static_cast<float>(b); }
EFEMU_HERE bool operator!=(const __half& a, const __half& b) { return static_cast<float>(a) != static_cast<float>(b); }
struct __nv_bfloat16_raw { unsigned short x; };
struct __nv_bfloat16 {
  unsigned short __x;

  __nv_bfloat16() = default;
  EFEMU_HERE __nv_bfloat16(const __nv_bfloat16_raw& bits) : __x(bits.x) {}
  EFEMU_HERE __nv_bfloat16(float value) : __x(::efemu::float_to_bf16(value)) {}
  EFEMU_HERE __nv_bfloat16(double value) : __x(::efemu::float_to_bf16(static_cast<float>(value))) {}
  EFEMU_HERE __nv_bfloat16(int value) : __x(::efemu::float_to_bf16(static_cast<float>(value))) {}
  EFEMU_HERE __nv_bfloat16(unsigned value) : __x(::efemu::float_to_bf16(static_cast<float>(value))) {}
  EFEMU_HERE __nv_bfloat16(long long value) : __x(::efemu::float_to_bf16(static_cast<float>(value))) {}
  EFEMU_HERE __nv_bfloat16(unsigned long long value) : __x(::efemu::float_to_bf16(static_cast<float>(value))) {}
  EFEMU_HERE __nv_bfloat16(long value) : __x(::efemu::float_to_bf16(static_cast<float>(value))) {}
  EFEMU_HERE operator float() const { return ::efemu::bf16_to_float(__x); }
  EFEMU_HERE operator __nv_bfloat16_raw() const { return {__x}; }
  EFEMU_HERE __nv_bfloat16& operator=(float value) { __x = ::efemu::float_to_bf16(value); return *this; }
  EFEMU_HERE __nv_bfloat16& operator=(double value) { __x = ::efemu::float_to_bf16(static_cast<float>(value)); return *this; }
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;

  __nv_bfloat162() = default;
  EFEMU_HERE __nv_bfloat162(const __nv_bfloat16& lo, const __nv_bfloat16& hi) : x(lo), y(hi) {}
};
EFEMU_HERE __nv_bfloat16 operator+(const __nv_bfloat16& a, const __nv_bfloat16& b) { return __nv_bfloat16(static_cast<float>(a) + static_cast<float>(b)); }
EFEMU_HERE __nv_bfloat16& operator+=(__nv_bfloat16& a, const __nv_bfloat16& b) { return a = a + b; }
EFEMU_HERE __nv_bfloat162 operator+(const __nv_bfloat162& a, const __nv_bfloat162& b) { return __nv_bfloat162(a.x + b.x, a.y + b.y); }
EFEMU_HERE __nv_bfloat162& operator+=(__nv_bfloat162& a, const __nv_bfloat162& b) { return a = a + b; }
EFEMU_HERE __nv_bfloat16 operator-(const __nv_bfloat16& a, const __nv_bfloat16& b) { return __nv_bfloat16(static_cast<float>(a) - static_cast<float>(b)); }
EFEMU_HERE __nv_bfloat16& operator-=(__nv_bfloat16& a, const __nv_bfloat16& b) { return a = a - b; }
EFEMU_HERE __nv_bfloat162 operator-(const __nv_bfloat162& a, const __nv_bfloat162& b) { return __nv_bfloat162(a.x - b.x, a.y - b.y); }
EFEMU_HERE __nv_bfloat162& operator-=(__nv_bfloat162& a, const __nv_bfloat162& b) { return a = a - b; }
EFEMU_HERE __nv_bfloat16 operator*(const __nv_bfloat16& a, const __nv_bfloat16& b) { return __nv_bfloat16(static_cast<float>(a) * static_cast<float>(b)); }
EFEMU_HERE __nv_bfloat16& operator*=(__nv_bfloat16& a, const __nv_bfloat16& b) { return a = a * b; }
EFEMU_HERE __nv_bfloat162 operator*(const __nv_bfloat162& a, const __nv_bfloat162& b) { return __nv_bfloat162(a.x * b.x, a.y * b.y); }
EFEMU_HERE __nv_bfloat162& operator*=(__nv_bfloat162& a, const __nv_bfloat162& b) { return a = a * b; }
EFEMU_HERE __nv_bfloat16 operator/(const __nv_bfloat16& a, const __nv_bfloat16& b) { return __nv_bfloat16(static_cast<float>(a) / static_cast<float>(b)); }
EFEMU_HERE __nv_bfloat16& operator/=(__nv_bfloat16& a, const __nv_bfloat16& b) { return a = a / b; }
EFEMU_HERE __nv_bfloat162 operator/(const __nv_bfloat162& a, const __nv_bfloat162& b) { return __nv_bfloat162(a.x / b.x, a.y / b.y); }
EFEMU_HERE __nv_bfloat162& operator/=(__nv_bfloat162& a, const __nv_bfloat162& b) { return a = a / b; }
EFEMU_HERE __nv_bfloat16 operator-(const __nv_bfloat16& a) { return __nv_bfloat16(-static_cast<float>(a)); }
EFEMU_HERE bool operator<(const __nv_bfloat16& a, const __nv_bfloat16& b) { return static_cast<float>(a) < static_cast<float>(b); }
EFEMU_HERE bool operator>(const __nv_bfloat16& a, const __nv_bfloat16& b) { return static_cast<float>(a) > static_cast<float>(b); }
EFEMU_HERE bool operator<=(const __nv_bfloat16& a, const __nv_bfloat16& b) { return static_cast<float>(a) <= static_cast<float>(b); }
EFEMU_HERE bool operator>=(const __nv_bfloat16& a, const __nv_bfloat16& b) { return static_cast<float>(a) >= static_cast<float>(b); }
EFEMU_HERE bool operator==(const __nv_bfloat16& a, const __nv_bfloat16& b) { return static_cast<float>(a) == static_cast<float>(b); }
EFEMU_HERE bool operator!=(const __nv_bfloat16& a, const __nv_bfloat16& b) { return static_cast<float>(a) != static_cast<float>(b); }
typedef __half half;
typedef __half2 half2;
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;
typedef __nv_bfloat162 nv_bfloat2;

EFEMU_HERE float __half2float(__half a) { return static_cast<float>(a); }
EFEMU_HERE __half __float2half(float a) { return __half(a); }
EFEMU_HERE __half __float2half_rn(float a) { return __half(a); }
EFEMU_HERE __half __float2half_rz(float a) { return __half(a); }
EFEMU_HERE __half __double2half(double a) { return __half(a); }
EFEMU_HERE __half __int2half_rn(int a) { return __half(a); }
EFEMU_HERE int __half2int_rn(__half a) { return static_cast<int>(rintf(static_cast<float>(a))); }
EFEMU_HERE int __half2int_rz(__half a) { return static_cast<int>(static_cast<float>(a)); }
EFEMU_HERE __half2 __float2half2_rn(float a) { return __half2(__half(a), __half(a)); }
EFEMU_HERE __half2 __floats2half2_rn(float a, float b) { return __half2(__half(a), __half(b)); }
EFEMU_HERE __half2 __float22half2_rn(float2 a) { return __half2(__half(a.x), __half(a.y)); }
EFEMU_HERE float2 __half22float2(__half2 a) { return {static_cast<float>(a.x), static_cast<float>(a.y)}; }
EFEMU_HERE __half2 __half2half2(__half a) { return __half2(a, a); }
EFEMU_HERE __half2 __halves2half2(__half a, __half b) { return __half2(a, b); }
EFEMU_HERE __half2 make_half2(__half a, __half b) { return __half2(a, b); }
EFEMU_HERE __half __low2half(__half2 a) { return a.x; }
EFEMU_HERE __half __high2half(__half2 a) { return a.y; }
EFEMU_HERE float __low2float(__half2 a) { return static_cast<float>(a.x); }
EFEMU_HERE float __high2float(__half2 a) { return static_cast<float>(a.y); }
EFEMU_HERE __half2 __low2half2(__half2 a) { return __half2(a.x, a.x); }
EFEMU_HERE __half2 __high2half2(__half2 a) { return __half2(a.y, a.y); }
EFEMU_HERE __half2 __lowhigh2highlow(__half2 a) { return __half2(a.y, a.x); }
EFEMU_HERE __half2 __lows2half2(__half2 a, __half2 b) { return __half2(a.x, b.x); }
EFEMU_HERE __half2 __highs2half2(__half2 a, __half2 b) { return __half2(a.y, b.y); }
EFEMU_HERE __half __ushort_as_half(unsigned short a) { return __half(__half_raw{a}); }
EFEMU_HERE unsigned short __half_as_ushort(__half a) { return a.__x; }
EFEMU_HERE short __half_as_short(__half a) { return static_cast<short>(a.__x); }
EFEMU_HERE __half __hadd(__half a, __half b) { return a + b; }
EFEMU_HERE __half2 __hadd2(__half2 a, __half2 b) { return a + b; }
EFEMU_HERE __half __hadd_rn(__half a, __half b) { return a + b; }
EFEMU_HERE __half2 __hadd2_rn(__half2 a, __half2 b) { return a + b; }
EFEMU_HERE __half __hsub(__half a, __half b) { return a - b; }
EFEMU_HERE __half2 __hsub2(__half2 a, __half2 b) { return a - b; }
EFEMU_HERE __half __hsub_rn(__half a, __half b) { return a - b; }
EFEMU_HERE __half2 __hsub2_rn(__half2 a, __half2 b) { return a - b; }
EFEMU_HERE __half __hmul(__half a, __half b) { return a * b; }
EFEMU_HERE __half2 __hmul2(__half2 a, __half2 b) { return a * b; }
EFEMU_HERE __half __hmul_rn(__half a, __half b) { return a * b; }
EFEMU_HERE __half2 __hmul2_rn(__half2 a, __half2 b) { return a * b; }
EFEMU_HERE __half __hdiv(__half a, __half b) { return a / b; }
EFEMU_HERE __half2 __h2div(__half2 a, __half2 b) { return a / b; }
EFEMU_HERE __half __hdiv_rn(__half a, __half b) { return a / b; }
EFEMU_HERE __half2 __h2div_rn(__half2 a, __half2 b) { return a / b; }
EFEMU_HERE __half __hadd_sat(__half a, __half b) { return __half(__saturatef(static_cast<float>(a + b))); }
EFEMU_HERE __half __hfma(__half a, __half b, __half c) { return __half(fmaf(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c))); }
EFEMU_HERE __half2 __hfma2(__half2 a, __half2 b, __half2 c) { return __half2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)); }
EFEMU_HERE __half __hneg(__half a) { return -a; }
EFEMU_HERE __half2 __hneg2(__half2 a) { return __half2(-a.x, -a.y); }
EFEMU_HERE __half __habs(__half a) { return __half(fabsf(static_cast<float>(a))); }
EFEMU_HERE __half2 __habs2(__half2 a) { return __half2(__habs(a.x), __habs(a.y)); }
EFEMU_HERE __half __hmax(__half a, __half b) { return __half(fmaxf(static_cast<float>(a), static_cast<float>(b))); }
EFEMU_HERE __half __hmin(__half a, __half b) { return __half(fminf(static_cast<float>(a), static_cast<float>(b))); }
EFEMU_HERE __half2 __hmax2(__half2 a, __half2 b) { return __half2(__hmax(a.x, b.x), __hmax(a.y, b.y)); }
EFEMU_HERE __half2 __hmin2(__half2 a, __half2 b) { return __half2(__hmin(a.x, b.x), __hmin(a.y, b.y)); }
EFEMU_HERE bool __hisnan(__half a) { return static_cast<float>(a) != static_cast<float>(a); }
EFEMU_HERE int __hisinf(__half a) { return __builtin_isinf_sign(static_cast<float>(a)); }
EFEMU_HERE bool __hlt(__half a, __half b) { return a < b; }
EFEMU_HERE bool __hgt(__half a, __half b) { return a > b; }
EFEMU_HERE bool __hle(__half a, __half b) { return a <= b; }
EFEMU_HERE bool __hge(__half a, __half b) { return a >= b; }
EFEMU_HERE bool __heq(__half a, __half b) { return a == b; }
EFEMU_HERE bool __hne(__half a, __half b) { return a != b; }
EFEMU_HERE __half hexp(__half a) { const float x = a; return __half(expf(x)); }
EFEMU_HERE __half2 h2exp(__half2 a) { return __half2(hexp(a.x), hexp(a.y)); }
EFEMU_HERE __half hexp2(__half a) { const float x = a; return __half(exp2f(x)); }
EFEMU_HERE __half2 h2exp2(__half2 a) { return __half2(hexp2(a.x), hexp2(a.y)); }
EFEMU_HERE __half hexp10(__half a) { const float x = a; return __half(exp10f(x)); }
EFEMU_HERE __half2 h2exp10(__half2 a) { return __half2(hexp10(a.x), hexp10(a.y)); }
EFEMU_HERE __half hlog(__half a) { const float x = a; return __half(logf(x)); }
EFEMU_HERE __half2 h2log(__half2 a) { return __half2(hlog(a.x), hlog(a.y)); }
EFEMU_HERE __half hlog2(__half a) { const float x = a; return __half(log2f(x)); }
EFEMU_HERE __half2 h2log2(__half2 a) { return __half2(hlog2(a.x), hlog2(a.y)); }
EFEMU_HERE __half hsqrt(__half a) { const float x = a; return __half(sqrtf(x)); }
EFEMU_HERE __half2 h2sqrt(__half2 a) { return __half2(hsqrt(a.x), hsqrt(a.y)); }
EFEMU_HERE __half hrsqrt(__half a) { const float x = a; return __half(1.0f / sqrtf(x)); }
EFEMU_HERE __half2 h2rsqrt(__half2 a) { return __half2(hrsqrt(a.x), hrsqrt(a.y)); }
EFEMU_HERE __half hrcp(__half a) { const float x = a; return __half(1.0f / x); }
EFEMU_HERE __half2 h2rcp(__half2 a) { return __half2(hrcp(a.x), hrcp(a.y)); }
EFEMU_HERE __half hsin(__half a) { const float x = a; return __half(sinf(x)); }
EFEMU_HERE __half2 h2sin(__half2 a) { return __half2(hsin(a.x), hsin(a.y)); }
EFEMU_HERE __half hcos(__half a) { const float x = a; return __half(cosf(x)); }
EFEMU_HERE __half2 h2cos(__half2 a) { return __half2(hcos(a.x), hcos(a.y)); }
EFEMU_HERE __half hfloor(__half a) { const float x = a; return __half(floorf(x)); }
EFEMU_HERE __half2 h2floor(__half2 a) { return __half2(hfloor(a.x), hfloor(a.y)); }
EFEMU_HERE __half hceil(__half a) { const float x = a; return __half(ceilf(x)); }
EFEMU_HERE __half2 h2ceil(__half2 a) { return __half2(hceil(a.x), hceil(a.y)); }
EFEMU_HERE __half hrint(__half a) { const float x = a; return __half(rintf(x)); }
EFEMU_HERE __half2 h2rint(__half2 a) { return __half2(hrint(a.x), hrint(a.y)); }
EFEMU_HERE __half htrunc(__half a) { const float x = a; return __half(truncf(x)); }
EFEMU_HERE __half2 h2trunc(__half2 a) { return __half2(htrunc(a.x), htrunc(a.y)); }
EFEMU_HERE __half htanh(__half a) { const float x = a; return __half(tanhf(x)); }
EFEMU_HERE __half2 h2tanh(__half2 a) { return __half2(htanh(a.x), htanh(a.y)); }
inline EFEMU_OWN __half atomicAdd(__half* target, __half value, EFEMU_AT) {
  return ::efemu::change_atomically(target, line, [value](__half old) -> __half { return old + value; });
}
inline EFEMU_OWN __half2 atomicAdd(__half2* target, __half2 value, EFEMU_AT) {
  return ::efemu::change_atomically(target, line, [value](__half2 old) -> __half2 { return old + value; });
}
EFEMU_HERE float __bfloat162float(__nv_bfloat16 a) { return static_cast<float>(a); }
EFEMU_HERE __nv_bfloat16 __float2bfloat16(float a) { return __nv_bfloat16(a); }
EFEMU_HERE __nv_bfloat16 __float2bfloat16_rn(float a) { return __nv_bfloat16(a); }
EFEMU_HERE __nv_bfloat16 __float2bfloat16_rz(float a) { return __nv_bfloat16(a); }
EFEMU_HERE __nv_bfloat16 __double2bfloat16(double a) { return __nv_bfloat16(a); }
EFEMU_HERE __nv_bfloat16 __int2bfloat16_rn(int a) { return __nv_bfloat16(a); }
EFEMU_HERE int __bfloat162int_rn(__nv_bfloat16 a) { return static_cast<int>(rintf(static_cast<float>(a))); }
EFEMU_HERE int __bfloat162int_rz(__nv_bfloat16 a) { return static_cast<int>(static_cast<float>(a)); }
EFEMU_HERE __nv_bfloat162 __float2bfloat162_rn(float a) { return __nv_bfloat162(__nv_bfloat16(a), __nv_bfloat16(a)); }
EFEMU_HERE __nv_bfloat162 __floats2bfloat162_rn(float a, float b) { return __nv_bfloat162(__nv_bfloat16(a), __nv_bfloat16(b)); }
EFEMU_HERE __nv_bfloat162 __float22bfloat162_rn(float2 a) { return __nv_bfloat162(__nv_bfloat16(a.x), __nv_bfloat16(a.y)); }
EFEMU_HERE float2 __bfloat1622float2(__nv_bfloat162 a) { return {static_cast<float>(a.x), static_cast<float>(a.y)}; }
EFEMU_HERE __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return __nv_bfloat162(a, a); }
EFEMU_HERE __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat162(a, b); }
EFEMU_HERE __nv_bfloat162 make_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat162(a, b); }
EFEMU_HERE __nv_bfloat16 __low2bfloat16(__nv_bfloat162 a) { return a.x; }
EFEMU_HERE __nv_bfloat16 __high2bfloat16(__nv_bfloat162 a) { return a.y; }
EFEMU_HERE float __low2float(__nv_bfloat162 a) { return static_cast<float>(a.x); }
EFEMU_HERE float __high2float(__nv_bfloat162 a) { return static_cast<float>(a.y); }
EFEMU_HERE __nv_bfloat162 __low2bfloat162(__nv_bfloat162 a) { return __nv_bfloat162(a.x, a.x); }
EFEMU_HERE __nv_bfloat162 __high2bfloat162(__nv_bfloat162 a) { return __nv_bfloat162(a.y, a.y); }
EFEMU_HERE __nv_bfloat162 __lowhigh2highlow(__nv_bfloat162 a) { return __nv_bfloat162(a.y, a.x); }
EFEMU_HERE __nv_bfloat162 __lows2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) { return __nv_bfloat162(a.x, b.x); }
EFEMU_HERE __nv_bfloat162 __highs2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) { return __nv_bfloat162(a.y, b.y); }
EFEMU_HERE __nv_bfloat16 __ushort_as_bfloat16(unsigned short a) { return __nv_bfloat16(__nv_bfloat16_raw{a}); }
EFEMU_HERE unsigned short __bfloat16_as_ushort(__nv_bfloat16 a) { return a.__x; }
EFEMU_HERE short __bfloat16_as_short(__nv_bfloat16 a) { return static_cast<short>(a.__x); }
EFEMU_HERE __nv_bfloat16 __hadd(__nv_bfloat16 a, __nv_bfloat16 b) { return a + b; }
EFEMU_HERE __nv_bfloat162 __hadd2(__nv_bfloat162 a, __nv_bfloat162 b) { return a + b; }
EFEMU_HERE __nv_bfloat16 __hadd_rn(__nv_bfloat16 a, __nv_bfloat16 b) { return a + b; }
EFEMU_HERE __nv_bfloat162 __hadd2_rn(__nv_bfloat162 a, __nv_bfloat162 b) { return a + b; }
EFEMU_HERE __nv_bfloat16 __hsub(__nv_bfloat16 a, __nv_bfloat16 b) { return a - b; }
EFEMU_HERE __nv_bfloat162 __hsub2(__nv_bfloat162 a, __nv_bfloat162 b) { return a - b; }
EFEMU_HERE __nv_bfloat16 __hsub_rn(__nv_bfloat16 a, __nv_bfloat16 b) { return a - b; }
EFEMU_HERE __nv_bfloat162 __hsub2_rn(__nv_bfloat162 a, __nv_bfloat162 b) { return a - b; }
EFEMU_HERE __nv_bfloat16 __hmul(__nv_bfloat16 a, __nv_bfloat16 b) { return a * b; }
EFEMU_HERE __nv_bfloat162 __hmul2(__nv_bfloat162 a, __nv_bfloat162 b) { return a * b; }
EFEMU_HERE __nv_bfloat16 __hmul_rn(__nv_bfloat16 a, __nv_bfloat16 b) { return a * b; }
EFEMU_HERE __nv_bfloat162 __hmul2_rn(__nv_bfloat162 a, __nv_bfloat162 b) { return a * b; }
EFEMU_HERE __nv_bfloat16 __hdiv(__nv_bfloat16 a, __nv_bfloat16 b) { return a / b; }
EFEMU_HERE __nv_bfloat162 __h2div(__nv_bfloat162 a, __nv_bfloat162 b) { return a / b; }
EFEMU_HERE __nv_bfloat16 __hdiv_rn(__nv_bfloat16 a, __nv_bfloat16 b) { return a / b; }
EFEMU_HERE __nv_bfloat162 __h2div_rn(__nv_bfloat162 a, __nv_bfloat162 b) { return a / b; }
EFEMU_HERE __nv_bfloat16 __hadd_sat(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16(__saturatef(static_cast<float>(a + b))); }
EFEMU_HERE __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) { return __nv_bfloat16(fmaf(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c))); }
EFEMU_HERE __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) { return __nv_bfloat162(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)); }
EFEMU_HERE __nv_bfloat16 __hneg(__nv_bfloat16 a) { return -a; }
EFEMU_HERE __nv_bfloat162 __hneg2(__nv_bfloat162 a) { return __nv_bfloat162(-a.x, -a.y); }
EFEMU_HERE __nv_bfloat16 __habs(__nv_bfloat16 a) { return __nv_bfloat16(fabsf(static_cast<float>(a))); }
EFEMU_HERE __nv_bfloat162 __habs2(__nv_bfloat162 a) { return __nv_bfloat162(__habs(a.x), __habs(a.y)); }
EFEMU_HERE __nv_bfloat16 __hmax(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16(fmaxf(static_cast<float>(a), static_cast<float>(b))); }
EFEMU_HERE __nv_bfloat16 __hmin(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16(fminf(static_cast<float>(a), static_cast<float>(b))); }
EFEMU_HERE __nv_bfloat162 __hmax2(__nv_bfloat162 a, __nv_bfloat162 b) { return __nv_bfloat162(__hmax(a.x, b.x), __hmax(a.y, b.y)); }
EFEMU_HERE __nv_bfloat162 __hmin2(__nv_bfloat162 a, __nv_bfloat162 b) { return __nv_bfloat162(__hmin(a.x, b.x), __hmin(a.y, b.y)); }
EFEMU_HERE bool __hisnan(__nv_bfloat16 a) { return static_cast<float>(a) != static_cast<float>(a); }
EFEMU_HERE int __hisinf(__nv_bfloat16 a) { return __builtin_isinf_sign(static_cast<float>(a)); }
EFEMU_HERE bool __hlt(__nv_bfloat16 a, __nv_bfloat16 b) { return a < b; }
EFEMU_HERE bool __hgt(__nv_bfloat16 a, __nv_bfloat16 b) { return a > b; }
EFEMU_HERE bool __hle(__nv_bfloat16 a, __nv_bfloat16 b) { return a <= b; }
EFEMU_HERE bool __hge(__nv_bfloat16 a, __nv_bfloat16 b) { return a >= b; }
EFEMU_HERE bool __heq(__nv_bfloat16 a, __nv_bfloat16 b) { return a == b; }
EFEMU_HERE bool __hne(__nv_bfloat16 a, __nv_bfloat16 b) { return a != b; }
EFEMU_HERE __nv_bfloat16 hexp(__nv_bfloat16 a) { const float x = a; return __nv_bfloat16(expf(x)); }
EFEMU_HERE __nv_bfloat162 h2exp(__nv_bfloat162 a) { return __nv_bfloat162(hexp(a.x), hexp(a.y)); }
EFEMU_HERE __nv_bfloat16 hexp2(__nv_bfloat16 a) { const float x = a; return __nv_bfloat16(exp2f(x)); }
EFEMU_HERE __nv_bfloat162 h2exp2(__nv_bfloat162 a) { return __nv_bfloat162(hexp2(a.x), hexp2(a.y)); }
EFEMU_HERE __nv_bfloat16 hexp10(__nv_bfloat16 a) { const float x = a; return __nv_bfloat16(exp10f(x)); }
EFEMU_HERE __nv_bfloat162 h2exp10(__nv_bfloat162 a) { return __nv_bfloat162(hexp10(a.x), hexp10(a.y)); }
EFEMU_HERE __nv_bfloat16 hlog(__nv_bfloat16 a) { const float x = a; return __nv_bfloat16(logf(x)); }
EFEMU_HERE __nv_bfloat162 h2log(__nv_bfloat162 a) { return __nv_bfloat162(hlog(a.x), hlog(a.y)); }
EFEMU_HERE __nv_bfloat16 hlog2(__nv_bfloat16 a) { const float x = a; return __nv_bfloat16(log2f(x)); }
EFEMU_HERE __nv_bfloat162 h2log2(__nv_bfloat162 a) { return __nv_bfloat162(hlog2(a.x), hlog2(a.y)); }
EFEMU_HERE __nv_bfloat16 hsqrt(__nv_bfloat16 a) { const float x = a; return __nv_bfloat16(sqrtf(x)); }
EFEMU_HERE __nv_bfloat162 h2sqrt(__nv_bfloat162 a) { return __nv_bfloat162(hsqrt(a.x), hsqrt(a.y)); }
EFEMU_HERE __nv_bfloat16 hrsqrt(__nv_bfloat16 a) { const float x = a; return __nv_bfloat16(1.0f / sqrtf(x)); }
EFEMU_HERE __nv_bfloat162 h2rsqrt(__nv_bfloat162 a) { return __nv_bfloat162(hrsqrt(a.x), hrsqrt(a.y)); }
EFEMU_HERE __nv_bfloat16 hrcp(__nv_bfloat16 a) { const float x = a; return __nv_bfloat16(1.0f / x); }
EFEMU_HERE __nv_bfloat162 h2rcp(__nv_bfloat162 a) { return __nv_bfloat162(hrcp(a.x), hrcp(a.y)); }
EFEMU_HERE __nv_bfloat16 hsin(__nv_bfloat16 a) { const float x = a; return __nv_bfloat16(sinf(x)); }
EFEMU_HERE __nv_bfloat162 h2sin(__nv_bfloat162 a) { return __nv_bfloat162(hsin(a.x), hsin(a.y)); }
EFEMU_HERE __nv_bfloat16 hcos(__nv_bfloat16 a) { const float x = a; return __nv_bfloat16(cosf(x)); }
EFEMU_HERE __nv_bfloat162 h2cos(__nv_bfloat162 a) { return __nv_bfloat162(hcos(a.x), hcos(a.y)); }
EFEMU_HERE __nv_bfloat16 hfloor(__nv_bfloat16 a) { const float x = a; return __nv_bfloat16(floorf(x)); }
EFEMU_HERE __nv_bfloat162 h2floor(__nv_bfloat162 a) { return __nv_bfloat162(hfloor(a.x), hfloor(a.y)); }
EFEMU_HERE __nv_bfloat16 hceil(__nv_bfloat16 a) { const float x = a; return __nv_bfloat16(ceilf(x)); }
EFEMU_HERE __nv_bfloat162 h2ceil(__nv_bfloat162 a) { return __nv_bfloat162(hceil(a.x), hceil(a.y)); }
EFEMU_HERE __nv_bfloat16 hrint(__nv_bfloat16 a) { const float x = a; return __nv_bfloat16(rintf(x)); }
EFEMU_HERE __nv_bfloat162 h2rint(__nv_bfloat162 a) { return __nv_bfloat162(hrint(a.x), hrint(a.y)); }
EFEMU_HERE __nv_bfloat16 htrunc(__nv_bfloat16 a) { const float x = a; return __nv_bfloat16(truncf(x)); }
EFEMU_HERE __nv_bfloat162 h2trunc(__nv_bfloat162 a) { return __nv_bfloat162(htrunc(a.x), htrunc(a.y)); }
EFEMU_HERE __nv_bfloat16 htanh(__nv_bfloat16 a) { const float x = a; return __nv_bfloat16(tanhf(x)); }
EFEMU_HERE __nv_bfloat162 h2tanh(__nv_bfloat162 a) { return __nv_bfloat162(htanh(a.x), htanh(a.y)); }
inline EFEMU_OWN __nv_bfloat16 atomicAdd(__nv_bfloat16* target, __nv_bfloat16 value, EFEMU_AT) {
  return ::efemu::change_atomically(target, line, [value](__nv_bfloat16 old) -> __nv_bfloat16 { return old + value; });
}
inline EFEMU_OWN __nv_bfloat162 atomicAdd(__nv_bfloat162* target, __nv_bfloat162 value, EFEMU_AT) {
  return ::efemu::change_atomically(target, line, [value](__nv_bfloat162 old) -> __nv_bfloat162 { return old + value; });
}

