/* What lies between the matrix products of a decoder, on a CPU: one token of every row, and packed training passes.

   On a small model the time goes into the number of operations and the memory they touch, not into their arithmetic.
   Each function here is one pass over memory in place of several tensor operations. Rows are computed one by one in a
   fixed order, so that a row's numbers depend neither on the others nor on the number of threads. No header of
   Python's: the library is loaded with ctypes. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define LARGEST 256 /* a head's size, which is a multiple of LANES */
#define LANES 16    /* keys lie side by side in lots of this many */
#define TEAM 4      /* queries that go through attention together */
#define WORK 7      /* arrays of a path's size that attention over packed sequences works with */
#define BLOCK 32    /* tokens are summed in blocks: first the block is found, then the token in it */

typedef float vector __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float)), may_alias));

typedef struct { /* y = w · x / √(mean x² + ε) of each row */
    const float *x, *weight;
    float *y, *scale; /* scale [rows]: 1 / √(mean x² + ε), where it is wanted */
    int64_t rows, width, threads;
    float eps;
} Norm;

typedef struct { /* from g, the slope by y: gx, the slope by x, and gw, to which the slope by w is added */
    const float *x, *weight, *scale, *g;
    float *gx, *gw;
    int64_t rows, width;
} NormBack;

typedef struct { /* y = silu(a) · b of rows [a, b] */
    const float *x;
    float *y;
    int64_t rows, width, threads;
} Gate;

typedef struct {
    const float *x, *g;
    float *gx;
    int64_t rows, width, threads;
} GateBack;

typedef struct { /* each row's new token attends to its line's prompt, which lines may share, and to what follows it */
    float *qkv;                                /* [rows, heads + 2 kv, size] of the new tokens; turned in place */
    float *keys, *values;                      /* [lines, kv, room / LANES, size, LANES], [lines, kv, room, size] */
    const float *shared_keys, *shared_values;  /* the same of prompts: [slots, …] */
    const float *rope;                         /* [positions, 2, size]: cosines, signed sines */
    const int64_t *position, *line;            /* [rows] of the token; rows of one line come in the order of its text */
    const int64_t *slot, *shared;              /* [lines] the line's prompt; how long that is */
    float *out;                                /* [rows, heads, size] */
    float *score;                              /* room for the scores of one row */
    int64_t rows, heads, kv, size, room, shared_room;
    float scale;
} Attend;

typedef struct { /* the first token whose cumulative probability exceeds the row's uniform number */
    const float *logits;        /* [rows, vocabulary] */
    const double *uniform;      /* [rows] in [0, 1) */
    const float *temperature;   /* [rows] */
    const int64_t *top_k;       /* [rows] 0: all; none of the three if no row is truncated */
    const float *top_p, *min_p; /* [rows] 1: all; 0: all */
    int64_t *token;             /* [rows] */
    float *logp, *entropy;      /* [rows] */
    float *work;                /* [3, vocabulary] */
    double *mass;               /* [vocabulary / BLOCK] */
    int64_t *order;             /* [vocabulary] */
    int32_t *kept;              /* what truncation leaves, row after row, in order; or none if it is not asked for */
    int64_t *ends;              /* [rows + 1] where those of each row begin, and the last end */
    int64_t rows, vocabulary;
} Draw;

typedef struct { /* attention of nodes of a trie along their paths; a span is a stretch of queries and its path */
    float *qkv;                  /* [nodes, heads + 2 kv, size], not turned yet; on the way back the slope by it */
    const float *rope;           /* [positions, 2, size] */
    const int64_t *position;     /* [nodes] */
    const int64_t *path, *begin; /* the nodes of all paths; where the path of each span begins, and the last ends */
    const int64_t *first;        /* [spans] the place in its path of a span's first query */
    const int64_t *offset;       /* [spans] where its attention weights begin */
    float *out;                  /* [nodes, heads, size]; on the way back the slope by it */
    float *turned;               /* [heads + 2 kv, nodes, size]: qkv turned, by head */
    float *weight;               /* [heads, total] attention weights */
    float *heads_out, *slope;    /* out and the slope by `turned`, by head; 0 at first */
    float *work;                 /* [kv, WORK, longest + LANES, size] */
    int64_t nodes, spans, heads, kv, size, total, longest, threads;
    float scale;
} Span;

typedef struct { /* logits without the tokens that the states of grammars forbid */
    float *logits;         /* [rows, vocabulary] */
    const int32_t *next;   /* [states, vocabulary] the state after each token; negative: forbidden */
    const int64_t *state;  /* [rows] 0 forbids nothing */
    int64_t rows, vocabulary;
    float excluded;
} Exclude;

typedef struct { /* log-probability of a token in each row; on the way back the slope by the logits */
    const float *logits; /* [rows, vocabulary] */
    const int64_t *id;   /* [rows] */
    float *logp, *total, *slope;
    int64_t rows, vocabulary, threads;
} Choose;

#define NAME(x) x
#include "kernels.h"
#undef NAME

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC target("arch=haswell")
#define NAME(x) x##_avx2
#include "kernels.h"
#undef NAME
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("arch=skylake-avx512", "prefer-vector-width=512")
#define NAME(x) x##_avx512
#include "kernels.h"
#undef NAME
#pragma GCC pop_options
#define EXPORT(name, Type)                                                                             \
    const int64_t podium_##name##_bytes = sizeof(Type);                                                \
    void podium_##name(const Type *t) {                                                                \
        if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")) name##_avx512(t); \
        else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) name##_avx2(t);      \
        else name(t);                                                                                  \
    }
#else
#define EXPORT(name, Type) \
    const int64_t podium_##name##_bytes = sizeof(Type);                                                \
    void podium_##name(const Type *t) { name(t); }
#endif

EXPORT(norm, Norm)
EXPORT(norm_back, NormBack)
EXPORT(gate, Gate)
EXPORT(gate_back, GateBack)
EXPORT(attend, Attend)
EXPORT(draw, Draw)
EXPORT(exclude, Exclude)
EXPORT(span, Span)
EXPORT(span_back, Span)
EXPORT(choose, Choose)
EXPORT(choose_back, Choose)
