/* The functions of kernels.c for one kind of processor; NAME gives them a suffix of their own. */

INLINE float NAME(exponential)(float x) {
    /* To a few units in the last place: e^x = 2^n · e^r with |r| ≤ ln 2 / 2. Below e^-80 it is 0: beside 1 that is
       nothing, and products with smaller numbers would be denormal, which processors compute a hundred times slower. */
    float least = x < -80.0f ? 0.0f : 1.0f;
    x = x < -80.0f ? -80.0f : x;
    float n = x * 1.44269504088896341f + 12582912.0f; /* 1.5 · 2^23: the sum is rounded to a whole number */
    uint32_t bits; /* without a sign: what is shifted out is meant to be lost */
    memcpy(&bits, &n, 4);
    n -= 12582912.0f;
    float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float y = 1.9875691500e-4f;
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * r * r + r + 1.0f;
    bits = (bits + 127u) << 23;
    float power;
    memcpy(&power, &bits, 4);
    return y * power * least;
}

static void NAME(norm)(const Norm *t) {
    int64_t width = t->width;
#pragma omp parallel for num_threads(t->threads) if (t->threads > 1)
    for (int64_t i = 0; i < t->rows; i++) {
        const float *x = t->x + i * width, *w = t->weight;
        float *y = t->y + i * width, sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < width; j++) sum += x[j] * x[j];
        float scale = 1.0f / sqrtf(sum / width + t->eps);
        if (t->scale) t->scale[i] = scale;
#pragma omp simd
        for (int64_t j = 0; j < width; j++) y[j] = x[j] * scale * w[j];
    }
}

static void NAME(norm_back)(const NormBack *t) {
    int64_t width = t->width;
    for (int64_t i = 0; i < t->rows; i++) {
        const float *x = t->x + i * width, *g = t->g + i * width, *w = t->weight;
        float *gx = t->gx + i * width, *gw = t->gw, scale = t->scale[i], along = 0;
#pragma omp simd reduction(+ : along)
        for (int64_t j = 0; j < width; j++) along += g[j] * w[j] * x[j];
        along *= scale * scale / width;
#pragma omp simd
        for (int64_t j = 0; j < width; j++) {
            gx[j] = (g[j] * w[j] - x[j] * along) * scale;
            gw[j] += g[j] * x[j] * scale;
        }
    }
}

static void NAME(gate)(const Gate *t) {
    int64_t width = t->width;
#pragma omp parallel for num_threads(t->threads) if (t->threads > 1)
    for (int64_t i = 0; i < t->rows; i++) {
        const float *a = t->x + 2 * i * width, *b = a + width;
        float *y = t->y + i * width;
#pragma omp simd
        for (int64_t j = 0; j < width; j++) y[j] = a[j] / (1.0f + NAME(exponential)(-a[j])) * b[j];
    }
}

static void NAME(gate_back)(const GateBack *t) {
    int64_t width = t->width;
#pragma omp parallel for num_threads(t->threads) if (t->threads > 1)
    for (int64_t i = 0; i < t->rows; i++) {
        const float *a = t->x + 2 * i * width, *b = a + width, *g = t->g + i * width;
        float *ga = t->gx + 2 * i * width, *gb = ga + width;
#pragma omp simd
        for (int64_t j = 0; j < width; j++) {
            float s = 1.0f / (1.0f + NAME(exponential)(-a[j]));
            ga[j] = g[j] * b[j] * s * (1.0f + a[j] * (1.0f - s));
            gb[j] = g[j] * a[j] * s;
        }
    }
}

INLINE void NAME(turn)(float *x, const float *rope, int64_t size) {
    int64_t half = size / 2;
    const float *sine = rope + size;
#pragma omp simd
    for (int64_t j = 0; j < half; j++) {
        float a = x[j], b = x[j + half];
        x[j] = a * rope[j] + b * sine[j];
        x[j + half] = b * rope[j + half] + a * sine[j + half];
    }
}

/* score[s] = query · key s, for keys stored as [room / LANES, size, LANES]; whole lots are written. */
INLINE void NAME(scores)(const float *query, const float *keys, int64_t count, int64_t size, float *score) {
    for (int64_t first = 0; first < count; first += LANES, keys += LANES * size) {
        vector even = {0}, odd = {0}; /* two sums at once: one would wait for itself */
        for (int64_t d = 0; d < size; d += 2) {
            even += query[d] * *(const vector *)(keys + d * LANES);
            odd += query[d + 1] * *(const vector *)(keys + (d + 1) * LANES);
        }
        *(vector *)(score + first) = even + odd;
    }
}

/* sum = Σ score[s] · values[s]. */
INLINE void NAME(weigh)(const float *score, const float *values, int64_t count, int64_t size, vector *sum) {
    for (int64_t lot = 0; lot < size / LANES; lot++) {
        vector even = sum[lot], odd = {0};
        const float *value = values + lot * LANES;
        int64_t s = 0;
        for (; s + 1 < count; s += 2) {
            even += score[s] * *(const vector *)(value + s * size);
            odd += score[s + 1] * *(const vector *)(value + (s + 1) * size);
        }
        if (s < count) even += score[s] * *(const vector *)(value + s * size);
        sum[lot] = even + odd;
    }
}

/* Scores of `count` keys as e^((score - max) · scale); returns their sum. What follows the last becomes 0. */
INLINE float NAME(exponentials)(float *score, int64_t count, float scale) {
    int64_t end = (count + LANES - 1) & -LANES; /* whole lots: a remainder would be computed one by one */
    for (int64_t s = count; s < end; s++) score[s] = -1e30f;
    float most = -1e30f, total = 0;
#pragma omp simd reduction(max : most)
    for (int64_t s = 0; s < end; s++) most = score[s] > most ? score[s] : most;
#pragma omp simd reduction(+ : total)
    for (int64_t s = 0; s < end; s++) total += score[s] = NAME(exponential)((score[s] - most) * scale);
    return total;
}

INLINE void NAME(attend_sized)(const Attend *t, int64_t size) {
    int64_t copies = t->heads / t->kv, wide = (t->heads + 2 * t->kv) * size;
    for (int64_t i = 0; i < t->rows; i++) {
        float *q = t->qkv + i * wide, *k = q + t->heads * size, *v = k + t->kv * size;
        int64_t line = t->line[i], slot = t->slot[line], shared = t->shared[line], own = t->position[i] - shared;
        if (own < 0) shared = own = 0; /* an idle row stands at position 0 */
        const float *rope = t->rope + t->position[i] * 2 * size;
        for (int64_t j = 0; j < t->heads + t->kv; j++) NAME(turn)(q + j * size, rope, size);
        for (int64_t j = 0; j < t->kv; j++) {
            int64_t there = (slot * t->kv + j) * t->shared_room * size, here = (line * t->kv + j) * t->room * size;
            const float *shared_keys = t->shared_keys + there, *shared_values = t->shared_values + there;
            float *keys = t->keys + here, *values = t->values + here;
            float *key = keys + (own & -LANES) * size + own % LANES;
            for (int64_t d = 0; d < size; d++) key[d * LANES] = k[j * size + d];
            memcpy(values + own * size, v + j * size, size * sizeof(float));
            for (int64_t c = 0; c < copies; c++) {
                const float *query = q + (j * copies + c) * size;
                float *score = t->score, *out = t->out + (i * t->heads + j * copies + c) * size;
                NAME(scores)(query, shared_keys, shared, size, score);
                NAME(scores)(query, keys, own + 1, size, score + shared);
                vector sum[LARGEST / LANES] = {{0}};
                float share = 1.0f / NAME(exponentials)(score, shared + own + 1, t->scale);
                NAME(weigh)(score, shared_values, shared, size, sum);
                NAME(weigh)(score + shared, values, own + 1, size, sum);
                for (int64_t d = 0; d < size / LANES; d++) ((vector *)out)[d] = sum[d] * share;
            }
        }
    }
}

/* x turned by the negative angle: the slope by what was turned. */
INLINE void NAME(turn_back)(const float *x, const float *rope, int64_t size, float *y) {
    int64_t half = size / 2;
    const float *sine = rope + size;
#pragma omp simd
    for (int64_t j = 0; j < half; j++) {
        float a = x[j], b = x[j + half];
        y[j] = a * rope[j] + b * sine[j + half];
        y[j + half] = b * rope[j + half] + a * sine[j];
    }
}

/* Rows of a path, one after another [count, size] and, where wanted, as lots for `scores`. */
INLINE void NAME(collect)(const int64_t *path, int64_t count, const float *x, int64_t size, float *rows, float *lots) {
    for (int64_t s = 0; s < count; s++) {
        memcpy(rows + s * size, x + path[s] * size, size * sizeof(float));
        if (!lots) continue;
        float *lot = lots + (s & -LANES) * size + s % LANES;
        for (int64_t d = 0; d < size; d++) lot[d * LANES] = rows[s * size + d];
    }
    for (int64_t s = count; lots && s % LANES; s++)
        for (int64_t d = 0; d < size; d++) lots[(s & -LANES) * size + d * LANES + s % LANES] = 0;
}

/* `scores` of a team of queries at once: each key is loaded once for all of them. */
INLINE void NAME(team_scores)(const float *query, const float *keys, int64_t count, int64_t size, float *score,
                              int64_t stride) {
    for (int64_t first = 0; first < count; first += LANES, keys += LANES * size) {
        vector sum[TEAM] = {{0}};
        for (int64_t d = 0; d < size; d++) {
            vector key = *(const vector *)(keys + d * LANES);
            for (int64_t m = 0; m < TEAM; m++) sum[m] += query[m * size + d] * key;
        }
        for (int64_t m = 0; m < TEAM; m++) *(vector *)(score + m * stride + first) = sum[m];
    }
}

/* `weigh` for a team: sum[m] = Σ score[m, s] · values[s]. */
INLINE void NAME(team_weigh)(const float *score, int64_t stride, const float *values, int64_t count, int64_t size,
                             float *result) {
    for (int64_t lot = 0; lot < size; lot += LANES) {
        vector sum[TEAM] = {{0}};
        for (int64_t s = 0; s < count; s++) {
            vector value = *(const vector *)(values + s * size + lot);
            for (int64_t m = 0; m < TEAM; m++) sum[m] += score[m * stride + s] * value;
        }
        for (int64_t m = 0; m < TEAM; m++) *(vector *)(result + m * size + lot) = sum[m];
    }
}

INLINE void NAME(span_sized)(const Span *t, int64_t j, int64_t size) {
    int64_t copies = t->heads / t->kv, all = t->nodes * size, room = t->longest + LANES;
    const float *k = t->turned + (t->heads + j) * all, *v = k + t->kv * all;
    float *keys = t->work + j * WORK * room * size, *key_lots = keys + room * size;
    float *values = key_lots + room * size;
    float query[TEAM * LARGEST], result[TEAM * LARGEST], share[TEAM];
    for (int64_t n = 0; n < t->spans; n++) {
        const int64_t *path = t->path + t->begin[n];
        int64_t count = t->begin[n + 1] - t->begin[n], stride = (count + LANES - 1) & -LANES;
        NAME(collect)(path, count, k, size, keys, key_lots);
        NAME(collect)(path, count, v, size, values, 0);
        for (int64_t head = j * copies; head < (j + 1) * copies; head++) {
            const float *q = t->turned + head * all;
            float *p = t->weight + head * t->total + t->offset[n];
            for (int64_t i = t->first[n]; i < count; i += TEAM, p += TEAM * stride) {
                int64_t team = count - i < TEAM ? count - i : TEAM, most = i + team;
                for (int64_t m = 0; m < TEAM; m++) /* an incomplete team is filled up with its last */
                    memcpy(query + m * size, q + path[i + (m < team ? m : team - 1)] * size, size * sizeof(float));
                NAME(team_scores)(query, key_lots, most, size, p, stride);
                for (int64_t m = 0; m < TEAM; m++) {
                    int64_t own = i + (m < team ? m : team - 1) + 1; /* keys that it may look at */
                    share[m] = 1.0f / NAME(exponentials)(p + m * stride, own, t->scale);
                    for (int64_t s = (own + LANES - 1) & -LANES; s < stride; s++) p[m * stride + s] = 0;
                }
                NAME(team_weigh)(p, stride, values, most, size, result);
                for (int64_t m = 0; m < team; m++) {
                    float *out = t->heads_out + head * all + path[i + m] * size;
#pragma omp simd
                    for (int64_t d = 0; d < size; d++) out[d] = result[m * size + d] * share[m];
#pragma omp simd
                    for (int64_t s = 0; s < stride; s++) p[m * stride + s] *= share[m];
                }
            }
        }
    }
}

INLINE void NAME(span_back_sized)(const Span *t, int64_t j, int64_t size) {
    int64_t copies = t->heads / t->kv, all = t->nodes * size, room = t->longest + LANES;
    const float *k = t->turned + (t->heads + j) * all, *v = k + t->kv * all;
    float *keys = t->work + j * WORK * room * size, *key_lots = keys + room * size;
    float *values = key_lots + room * size, *value_lots = values + room * size;
    float *slope_k = value_lots + room * size, *slope_v = slope_k + room * size, *slope = slope_v + room * size;
    float query[TEAM * LARGEST], g[TEAM * LARGEST], result[TEAM * LARGEST];
    for (int64_t n = 0; n < t->spans; n++) {
        const int64_t *path = t->path + t->begin[n];
        int64_t count = t->begin[n + 1] - t->begin[n], stride = (count + LANES - 1) & -LANES;
        NAME(collect)(path, count, k, size, keys, key_lots);
        NAME(collect)(path, count, v, size, values, value_lots);
        memset(slope_k, 0, 2 * room * size * sizeof(float));
        for (int64_t head = j * copies; head < (j + 1) * copies; head++) {
            const float *q = t->turned + head * all, *p = t->weight + head * t->total + t->offset[n];
            for (int64_t i = t->first[n]; i < count; i += TEAM, p += TEAM * stride) {
                int64_t team = count - i < TEAM ? count - i : TEAM, most = i + team;
                for (int64_t m = 0; m < TEAM; m++) { /* the absent of an incomplete team have slope 0 */
                    int64_t node = path[i + (m < team ? m : team - 1)];
                    memcpy(query + m * size, q + node * size, size * sizeof(float));
                    if (m < team) memcpy(g + m * size, t->heads_out + head * all + node * size, size * sizeof(float));
                    else memset(g + m * size, 0, size * sizeof(float));
                }
                NAME(team_scores)(g, value_lots, most, size, slope, room);
                int64_t end = (most + LANES - 1) & -LANES;
                for (int64_t m = 0; m < TEAM; m++) {
                    const float *weight = p + m * stride;
                    float *own = slope + m * room, along = 0;
#pragma omp simd reduction(+ : along)
                    for (int64_t s = 0; s < end; s++) along += weight[s] * own[s];
#pragma omp simd
                    for (int64_t s = 0; s < end; s++) own[s] = weight[s] * (own[s] - along) * t->scale;
                }
                NAME(team_weigh)(slope, room, keys, most, size, result);
                for (int64_t m = 0; m < team; m++)
                    memcpy(t->slope + head * all + path[i + m] * size, result + m * size, size * sizeof(float));
                for (int64_t lot = 0; lot < size; lot += LANES) {
                    vector a[TEAM], b[TEAM];
                    for (int64_t m = 0; m < TEAM; m++) {
                        a[m] = *(const vector *)(query + m * size + lot);
                        b[m] = *(const vector *)(g + m * size + lot);
                    }
                    for (int64_t s = 0; s < most; s++) {
                        vector *gk = (vector *)(slope_k + s * size + lot), *gv = (vector *)(slope_v + s * size + lot);
                        vector x = *gk, y = *gv;
                        for (int64_t m = 0; m < TEAM; m++) {
                            x += slope[m * room + s] * a[m];
                            y += p[m * stride + s] * b[m];
                        }
                        *gk = x, *gv = y;
                    }
                }
            }
        }
        float *gk = t->slope + (t->heads + j) * all, *gv = gk + t->kv * all;
        for (int64_t s = 0; s < count; s++) /* a node that several spans share adds them up */
#pragma omp simd
            for (int64_t d = 0; d < size; d++) {
                gk[path[s] * size + d] += slope_k[s * size + d];
                gv[path[s] * size + d] += slope_v[s * size + d];
            }
    }
}

/* A constant size lets the compiler keep a head in registers. */
#define SIZED(name, size, ...)                     \
    switch (size) {                                \
        case 32: NAME(name)(__VA_ARGS__, 32); break;   \
        case 64: NAME(name)(__VA_ARGS__, 64); break;   \
        case 128: NAME(name)(__VA_ARGS__, 128); break; \
        default: NAME(name)(__VA_ARGS__, size);        \
    }

static void NAME(attend)(const Attend *t) { SIZED(attend_sized, t->size, t) }

static void NAME(span)(const Span *t) {
    int64_t all = t->heads + 2 * t->kv, size = t->size;
#pragma omp parallel for num_threads(t->threads) if (t->threads > 1)
    for (int64_t i = 0; i < t->nodes; i++) /* by head, so that what one head needs lies together */
        for (int64_t c = 0; c < all; c++) {
            float *x = t->turned + (c * t->nodes + i) * size;
            memcpy(x, t->qkv + (i * all + c) * size, size * sizeof(float));
            if (c < t->heads + t->kv) NAME(turn)(x, t->rope + t->position[i] * 2 * size, size);
        }
#pragma omp parallel for num_threads(t->threads) if (t->threads > 1)
    for (int64_t j = 0; j < t->kv; j++) SIZED(span_sized, t->size, t, j)
#pragma omp parallel for num_threads(t->threads) if (t->threads > 1)
    for (int64_t i = 0; i < t->nodes; i++)
        for (int64_t c = 0; c < t->heads; c++)
            memcpy(t->out + (i * t->heads + c) * size, t->heads_out + (c * t->nodes + i) * size, size * sizeof(float));
}

static void NAME(span_back)(const Span *t) {
    int64_t all = t->heads + 2 * t->kv, size = t->size;
#pragma omp parallel for num_threads(t->threads) if (t->threads > 1)
    for (int64_t i = 0; i < t->nodes; i++)
        for (int64_t c = 0; c < t->heads; c++)
            memcpy(t->heads_out + (c * t->nodes + i) * size, t->out + (i * t->heads + c) * size, size * sizeof(float));
#pragma omp parallel for num_threads(t->threads) if (t->threads > 1)
    for (int64_t j = 0; j < t->kv; j++) SIZED(span_back_sized, t->size, t, j)
#pragma omp parallel for num_threads(t->threads) if (t->threads > 1)
    for (int64_t i = 0; i < t->nodes; i++)
        for (int64_t c = 0; c < all; c++) {
            const float *x = t->slope + (c * t->nodes + i) * size;
            float *y = t->qkv + (i * all + c) * size; /* here: the slope by it */
            if (c < t->heads + t->kv) NAME(turn_back)(x, t->rope + t->position[i] * 2 * size, size, y);
            else memcpy(y, x, size * sizeof(float));
        }
}
#undef SIZED

/* logp[i] = log softmax(z)[id], and log Σ e^z for the way back. */
static void NAME(choose)(const Choose *t) {
    int64_t width = t->vocabulary;
#pragma omp parallel for num_threads(t->threads) if (t->threads > 1)
    for (int64_t i = 0; i < t->rows; i++) {
        const float *z = t->logits + i * width;
        float most = z[0], total = 0;
#pragma omp simd reduction(max : most)
        for (int64_t j = 0; j < width; j++) most = z[j] > most ? z[j] : most;
#pragma omp simd reduction(+ : total)
        for (int64_t j = 0; j < width; j++) total += NAME(exponential)(z[j] - most);
        t->total[i] = most + logf(total);
        t->logp[i] = z[t->id[i]] - most - logf(total);
    }
}

static void NAME(choose_back)(const Choose *t) {
    int64_t width = t->vocabulary;
#pragma omp parallel for num_threads(t->threads) if (t->threads > 1)
    for (int64_t i = 0; i < t->rows; i++) {
        const float *z = t->logits + i * width;
        float *slope = t->slope + i * width, g = t->logp[i], total = t->total[i]; /* logp: here the slope by it */
#pragma omp simd
        for (int64_t j = 0; j < width; j++) slope[j] = -g * NAME(exponential)(z[j] - total);
        slope[t->id[i]] += g;
    }
}

INLINE float NAME(greatest)(const float *x, int64_t first, int64_t end) {
    float most = x[first];
#pragma omp simd reduction(max : most)
    for (int64_t j = first; j < end; j++) most = x[j] > most ? x[j] : most;
    return most;
}

/* A probability such that those at least as large do not reach the goal, and hardly more would.

   Positive numbers are in the order of their bits: the interval is halved until few are left in it. */
INLINE float NAME(surely)(const float *p, int64_t width, double goal) {
    uint32_t low = 0, high = 0x3f800001; /* just above 1, which the likeliest has */
    float least;
    for (int step = 0; step < 14; step++) {
        uint32_t middle = low + (high - low) / 2;
        memcpy(&least, &middle, sizeof least);
        double above = 0;
        for (int64_t first = 0; first < width; first += BLOCK) {
            int64_t end = first + BLOCK < width ? first + BLOCK : width;
            float mass = 0;
#pragma omp simd reduction(+ : mass)
            for (int64_t j = first; j < end; j++) mass += p[j] >= least ? p[j] : 0.0f;
            above += mass;
        }
        if (above < goal) high = middle;
        else low = middle;
    }
    memcpy(&least, &high, sizeof least);
    return least;
}

/* Leave the tokens of a row that top-k, then top-p of what it leaves, and min-p keep; the others get p = 0.

   Of top-p alone most are found at once. The others are taken out one by one, the likeliest first, of equal ones the
   first: with the largest of each block at hand that is a short search. */
INLINE void NAME(truncate)(const Draw *t, int64_t top_k, float top_p, float min_p, double total) {
    int64_t width = t->vocabulary, blocks = (width + BLOCK - 1) / BLOCK, count = 0;
    float *p = t->work, *rest = p + width, *largest = rest + width;
    int64_t *order = t->order;
    memcpy(rest, p, width * sizeof(float));
    int64_t limit = top_k > 0 && top_k < width ? top_k : width;
    /* What top-p divides is known at once, or after the k likeliest have been found. */
    double goal = top_p < 1.0f && top_k <= 0 ? top_p * total : INFINITY, mass = 0;
    if (goal < INFINITY) {
        float sure = NAME(surely)(p, width, goal);
        for (int64_t j = 0; j < width; j++)
            if (p[j] >= sure) order[count++] = j, mass += p[j], rest[j] = -1.0f;
    }
    for (int64_t b = 0; b < blocks; b++) {
        int64_t first = b * BLOCK, end = first + BLOCK < width ? first + BLOCK : width;
        largest[b] = NAME(greatest)(rest, first, end);
    }
    while (count < limit && mass < goal && (limit < width || top_p < 1.0f)) {
        int64_t b = 0, j;
        for (int64_t c = 1; c < blocks; c++) b = largest[c] > largest[b] ? c : b;
        for (j = b * BLOCK; rest[j] != largest[b]; j++);
        order[count++] = j;
        mass += p[j];
        rest[j] = -1.0f;
        int64_t first = b * BLOCK, end = first + BLOCK < width ? first + BLOCK : width;
        largest[b] = NAME(greatest)(rest, first, end);
    }
    if (top_k > 0 && top_p < 1.0f) {
        double below = 0;
        int64_t kept = 0;
        while (kept < count && below < top_p * mass) below += p[order[kept++]];
        count = kept;
    }
    if (limit < width || top_p < 1.0f) {
        memset(rest, 0, width * sizeof(float));
        for (int64_t c = 0; c < count; c++) rest[order[c]] = p[order[c]];
    }
    for (int64_t j = 0; j < width; j++) p[j] = rest[j] >= min_p ? rest[j] : 0.0f; /* the likeliest has p = 1 */
}

static void NAME(draw)(const Draw *t) {
    int64_t width = t->vocabulary, blocks = (width + BLOCK - 1) / BLOCK, listed = 0;
    for (int64_t i = 0; i < t->rows; i++) {
        const float *z = t->logits + i * width;
        float *p = t->work, most = z[0], cold = 1.0f / t->temperature[i];
#pragma omp simd reduction(max : most)
        for (int64_t j = 0; j < width; j++) most = z[j] > most ? z[j] : most;
        double total = 0, moment = 0;
        for (int64_t b = 0; b < blocks; b++) {
            int64_t first = b * BLOCK, end = first + BLOCK < width ? first + BLOCK : width;
            float mass = 0, first_moment = 0;
#pragma omp simd reduction(+ : mass, first_moment)
            for (int64_t j = first; j < end; j++) {
                float x = (z[j] - most) * cold;
                mass += p[j] = NAME(exponential)(x);
                first_moment += p[j] * (x > -100.0f ? x : -100.0f); /* 0 · −∞ would not be a number */
            }
            t->mass[b] = mass;
            total += mass;
            moment += first_moment;
        }
        if (t->top_k && (t->top_k[i] > 0 || t->top_p[i] < 1.0f || t->min_p[i] > 0.0f)) {
            NAME(truncate)(t, t->top_k[i], t->top_p[i], t->min_p[i], total);
            int32_t *kept = t->kept ? t->kept + listed : NULL;
            total = moment = 0;
            for (int64_t b = 0; b < blocks; b++) {
                int64_t first = b * BLOCK, end = first + BLOCK < width ? first + BLOCK : width;
                float mass = 0, first_moment = 0;
#pragma omp simd reduction(+ : mass, first_moment)
                for (int64_t j = first; j < end; j++) {
                    float x = (z[j] - most) * cold;
                    mass += p[j];
                    first_moment += p[j] * (x > -100.0f ? x : -100.0f);
                }
                t->mass[b] = mass;
                total += mass;
                moment += first_moment;
                if (kept && mass > 0)
                    for (int64_t j = first; j < end; j++)
                        if (p[j] > 0) *kept++ = (int32_t)j;
            }
            if (kept) listed = kept - t->kept;
        }
        double goal = t->uniform[i] * total, below = 0;
        int64_t b = 0, token;
        while (b < blocks - 1 && below + t->mass[b] <= goal) below += t->mass[b++];
        token = b * BLOCK;
        int64_t last = token + BLOCK < width ? token + BLOCK : width, seen = token;
        /* Sums of a block in two ways may differ in the last bit: what is drawn stays inside it, where p > 0. */
        for (int64_t j = token; j < last; j++) {
            if (p[j] > 0) seen = j;
            below += p[j];
            if (below > goal) break;
        }
        token = seen;
        double log_total = log(total);
        t->token[i] = token;
        t->logp[i] = (float)((double)((z[token] - most) * cold) - log_total);
        t->entropy[i] = (float)(log_total - moment / total);
        if (t->ends) t->ends[i + 1] = listed;
    }
}

static void NAME(exclude)(const Exclude *t) {
    for (int64_t i = 0; i < t->rows; i++) {
        if (t->state[i] == 0) continue;
        float *z = t->logits + i * t->vocabulary;
        const int32_t *next = t->next + t->state[i] * t->vocabulary;
#pragma omp simd
        for (int64_t j = 0; j < t->vocabulary; j++) z[j] = next[j] < 0 ? t->excluded : z[j];
    }
}
