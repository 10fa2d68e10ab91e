// All steps of a block of rows for many small networks: a thread block has a network for itself.
//
// Weights, states and gradients lie in shared memory, and moments too where there is room. States and gradients of a
// node lie side by side, one for each row, `row_stride` numbers from node to node. Everything is padded with zeros to
// whole tiles; what is computed for a row or a node that is not there comes to 0.
//
// Loops are unrolled only where it pays: the way through a step is long, and instructions have to be fetched as well.
//
// Products are computed on tensor cores, in tiles of 16 x 8 that sum up 8 products at a time. A float32 number is split
// into two TF32 numbers, and the three products that matter are added up in float32 ("3xTF32"): that is off by a unit in
// the last place on average, and by a few at worst.

const int MOST_LAYERS = 8;

typedef long long int64;
typedef unsigned long long uint64;

struct Layer {
    int n_sources, n_targets;
    int aligned_sources, aligned_targets;  // as they are in global memory
    int column;                            // of the first weight in a row of global memory
    int padded_sources, padded_targets;    // multiples of 8
    int stride;                            // of weights in shared memory
    int weights, moments, squares;  // places in shared memory, each of weights and then of biases; -1: in global memory
    int states;                     // place of what the layer computes; the last one's become gradients at once
    int n_forward, n_backward, n_update;  // tiles that a warp computes at once: 1 (not backward), 4 or 7
    int forward_jobs, backward_jobs, update_jobs;
};

struct Arguments {
    const float *x, *shares;
    const void *targets;
    float *kept, *flat, *moment, *square;
    const float *factors, *rates, *l2, *l1, *decay, *threshold;  // penalties and factors that are not there are null
    const int64 *keys, *drop_thresholds;                          // without dropout, null
    uint64 *jumps;
    const float *drop_scales;
    const int *n_steps;
    int64 x_model, target_model, share_model, kept_model, flat_model, key_layer;
    int x_row, target_row, kept_row, rates_step, rates_stride;
    int n_layers, batch_size, n_positions, first_step, n_block_steps;
    int kind, n_rows, row_stride;   // n_rows: of all tiles, a multiple of 16
    int inputs, input_size, spare;  // places of x and gradients in shared memory; size of x, 0: there is room for one
    float setting, rest_1, beta_2, rest_2;
    Layer layers[MOST_LAYERS];
};

__device__ uint64 hash(uint64 value) {  // splitmix64, as in `counter_random`
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
    return value ^ (value >> 31);
}

struct Drop {
    bool any;
    uint64 key, factor, step;  // a number of the step is factor * (first number of its stream) + step
    int64 threshold;
    float scale;

    __device__ bool keeps(int row, int node, int n_nodes) const {
        uint64 place = (uint64)(row * n_nodes + node) + 1;
        uint64 number = factor * hash(key + place * 0x9E3779B97F4A7C15ull) + step;
        return (int64)number >= threshold;
    }
};

// Gradient of the loss by the outputs of a row, in their place; the outputs are kept for the loss of the epoch.
__device__ void loss_slope(const Arguments &a, float *outputs, int row, int n_outputs, int64 model, int position,
                           float share, int64 label) {
    const int stride = a.row_stride;
    float *kept = a.kept + model * a.kept_model + (int64)position * a.kept_row;
    float largest = outputs[row];
#pragma unroll 1
    for (int i = 0; i < n_outputs; i++) {
        const float output = outputs[i * stride + row];
        kept[i] = output;
        largest = fmaxf(largest, output);
    }
    if (a.kind == 0) {
        float sum = 0.0f;
#pragma unroll 1
        for (int i = 0; i < n_outputs; i++) {
            const float power = expf(outputs[i * stride + row] - largest);
            outputs[i * stride + row] = power;
            sum += power;
        }
#pragma unroll 1
        for (int i = 0; i < n_outputs; i++) {
            const float hit = i == label ? 1.0f - a.setting : 0.0f;
            outputs[i * stride + row] = (outputs[i * stride + row] / sum - hit - a.setting / n_outputs) * share;
        }
        return;
    }
    const float *targets =
        static_cast<const float *>(a.targets) + model * a.target_model + (int64)position * a.target_row;
#pragma unroll 1
    for (int i = 0; i < n_outputs; i++) {
        const float output = outputs[i * stride + row], target = targets[i];
        float slope = output - target;
        if (a.kind == 1) {
            slope = 2.0f * slope;
        } else if (a.kind == 2) {  // comparisons that keep NaN
            slope = slope > a.setting ? a.setting : slope < -a.setting ? -a.setting : slope;
        } else if (a.kind == 3) {
            const float sign = slope > 0.0f ? 0.5f : slope < 0.0f ? -0.5f : slope == 0.0f ? 0.0f : slope;
            slope = sign + (0.5f - a.setting);
        } else {
            slope = 1.0f / (1.0f + expf(-output)) - target;
        }
        outputs[i * stride + row] = slope * share;
    }
}

// The optimiser's step of one weight; quotient and root may be off by a unit in the last place, as in `triton_kernels`.
struct Adam {
    float rest_1, beta_2, rest_2, scale, offset, rate, l2, l1, decay, limit;
    bool is_plain, has_threshold;
    const float *factors;

    __device__ void operator()(float &weight, float grad, float &moment, float &square, int column) const {
        if (!is_plain) grad += l2 * weight + (weight > 0.0f ? l1 : weight < 0.0f ? -l1 : 0.0f);
        moment += rest_1 * (grad - moment);
        square = square * beta_2 + rest_2 * grad * grad;
        float root, quotient;
        asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(square));
        // Not less than the least normal number: a gradient that is always 0 must not be divided by 0.
        asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(quotient) : "f"(fmaxf(root * scale + offset, 1.2e-38f)));
        float change = moment * quotient;
        if (!is_plain) {
            const float factor = factors ? factors[column] : 1.0f, own_rate = rate * factor;
            change *= factor;
            weight *= 1.0f - own_rate * decay;
            const float own_limit = own_rate * limit, kept = weight - change;
            weight = has_threshold ? kept - fmaxf(fminf(kept, own_limit), -own_limit) : kept;
        } else {
            weight -= change;
        }
    }
};

enum Pass { FORWARD, BACKWARD, UPDATE };

// A number as tensor cores take it: they look at its first 19 bits only. `high` is rounded to them, `low` is the rest.
// Of infinity and NaN at least one part stays what it is.
struct Split {
    unsigned high, low;

    __device__ Split() {}
    __device__ explicit Split(float number) : high(__float_as_uint(number) + 0x1000u) {
        low = __float_as_uint(number - __uint_as_float(high & 0xffffe000u));
    }
};

__device__ void multiply_tile(float (&total)[4], const unsigned (&a)[4], unsigned b_0, unsigned b_1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(total[0]), "+f"(total[1]), "+f"(total[2]), "+f"(total[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_0), "r"(b_1));
}

__device__ float2 two(const float *place) { return *reinterpret_cast<const float2 *>(place); }

// Sums of `n` products for TILES tiles: 16 rows of `left` times 8 columns of `right` each.
//
// FORWARD:  left[k * left_stride + row],  right[k * right_stride + column]
// BACKWARD: left[k * left_stride + row],  right[column * right_stride + k]
// UPDATE:   left[row * left_stride + k],  right[column * right_stride + k]
//
// A thread has two of each eight products. Which two does not matter as long as they are the same on both sides; so
// they are two that lie side by side where numbers do. Rows beyond `most_row` in UPDATE are computed as if they were
// the last one, and tiles that are not there from whatever stands there: nobody looks at them, and branches would cost
// more.
template <Pass PASS, int TILES>
__device__ void multiply(float (&total)[TILES][4], int n, const float *left, int left_stride, const float *right,
                         int right_stride, int row, int most_row, int column) {
    const int group = threadIdx.x % 32 / 4, own = threadIdx.x % 4, first = PASS == FORWARD ? own : 2 * own;
    const float *upper, *lower;
    if (PASS == UPDATE) {
        upper = left + min(row + group, most_row) * left_stride + first;
        lower = left + min(row + group + 8, most_row) * left_stride + first;
    } else {
        upper = left + first * left_stride + row + group;
        lower = upper + (PASS == FORWARD ? 4 : 1) * left_stride;  // the second product, here
    }
    right += PASS == FORWARD ? first * right_stride + column + group : (column + group) * right_stride + first;
    const int left_step = PASS == UPDATE ? 8 : 8 * left_stride, right_step = PASS == FORWARD ? 8 * right_stride : 8;
    const int next_tile = PASS == FORWARD ? 8 : 8 * right_stride, second = 4 * right_stride;
    float small[TILES][4] = {};
#pragma unroll 2
    for (int k = 0; k < n; k += 8) {
        float2 above, below, numbers[TILES];
        if (PASS == UPDATE)
            above = two(upper), below = two(lower);
        else
            above = make_float2(upper[0], lower[0]), below = make_float2(upper[8], lower[8]);
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
            const float *place = right + tile * next_tile;
            numbers[tile] = PASS == FORWARD ? make_float2(place[0], place[second]) : two(place);
        }
        upper += left_step, lower += left_step, right += right_step;
        const Split a_0(above.x), a_1(below.x), a_2(above.y), a_3(below.y);
        const unsigned high[4] = {a_0.high, a_1.high, a_2.high, a_3.high};
        const unsigned low[4] = {a_0.low, a_1.low, a_2.low, a_3.low};
        Split b[TILES][2];
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
            b[tile][0] = Split(numbers[tile].x);
            b[tile][1] = Split(numbers[tile].y);
        }
        // In this order no product has to wait for the one before.
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) multiply_tile(total[tile], high, b[tile][0].high, b[tile][1].high);
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) multiply_tile(small[tile], low, b[tile][0].high, b[tile][1].high);
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) multiply_tile(small[tile], high, b[tile][0].low, b[tile][1].low);
    }
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int i = 0; i < 4; i++) total[tile][i] += small[tile][i];
}

// The part of a matrix that a warp computes: 16 rows and up to TILES tiles of 8 columns.
template <int TILES>
struct Part {
    int row, column, n_tiles;

    // Jobs are numbered down the rows first.
    __device__ Part(int job, int n_rows, int n_columns) {
        const int n_down = (n_rows + 15) / 16;
        const int across = __fdividef(job + 0.5f, n_down);  // as exact as it has to be, and no division of integers
        row = 16 * (job - across * n_down);
        column = 8 * TILES * across;
        n_tiles = min(TILES, (n_columns - column) / 8);
    }
    // Where the four numbers of a thread are in a tile.
    __device__ int row_of(int i) const { return row + threadIdx.x % 32 / 4 + 8 * (i / 2); }
    __device__ int column_of(int tile, int i) const { return column + 8 * tile + 2 * (threadIdx.x % 4) + i % 2; }
};

// States of a layer, or outputs.
template <int TILES>
__device__ void forward(const Arguments &a, const Layer &layer, float *memory, const float *sources, const Drop &drop,
                        bool is_output) {
    const float *weights = memory + layer.weights, *biases = weights + layer.padded_sources * layer.stride;
    float *states = memory + layer.states;
    const float least = is_output ? -__int_as_float(0x7f800000) : 0.0f, scale = is_output ? 1.0f : drop.scale;
#pragma unroll 1
    for (int job = threadIdx.x / 32; job < layer.forward_jobs; job += blockDim.x / 32) {
        const Part<TILES> part(job, a.n_rows, layer.padded_targets);
        float total[TILES][4] = {};
        multiply<FORWARD, TILES>(total, layer.padded_sources, sources, a.row_stride, weights, layer.stride, part.row, 0,
                                 part.column);
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
            if (tile < part.n_tiles) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int target = part.column_of(tile, i);
                    const float state = total[tile][i] + biases[target];
                    // NaN stays NaN: what diverges has to be noticed
                    states[target * a.row_stride + part.row_of(i)] = state < least ? 0.0f : state * scale;
                }
            }
        }
        if (drop.any && !is_output) {  // not unrolled over tiles, as these are many instructions
#pragma unroll 1
            for (int tile = 0; tile < part.n_tiles; tile++) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int row = part.row_of(i), target = part.column_of(tile, i);
                    float &state = states[target * a.row_stride + row];
                    if (!drop.keeps(row, target, layer.n_targets)) state = 0.0f;
                }
            }
        }
    }
}

// Gradient by the messages of the layer before.
template <int TILES>
__device__ void backward(const Arguments &a, const Layer &layer, float *memory, const float *sources,
                         const float *grads, float *grads_before, float scale) {
#pragma unroll 1
    for (int job = threadIdx.x / 32; job < layer.backward_jobs; job += blockDim.x / 32) {
        const Part<TILES> part(job, a.n_rows, layer.padded_sources);
        float total[TILES][4] = {};
        multiply<BACKWARD, TILES>(total, layer.padded_targets, grads, a.row_stride, memory + layer.weights,
                                  layer.stride, part.row, 0, part.column);
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
            if (tile < part.n_tiles) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int place = part.column_of(tile, i) * a.row_stride + part.row_of(i);
                    grads_before[place] = sources[place] > 0.0f ? total[tile][i] * scale : 0.0f;
                }
            }
        }
    }
}

// Where the weights of a layer and their moments are.
struct Parameters {
    float *weights, *moments, *squares;
    int stride, moment_stride, bias, moment_bias;  // the last two are the places of the first bias
};

template <int TILES>
__device__ void load_moments(float2 (&moments)[TILES][2], float2 (&squares)[TILES][2], const Parameters &p,
                             const Part<TILES> &part, int n_sources) {
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int source = min(part.row_of(2 * half), n_sources - 1);
            const int place = source * p.moment_stride + part.column_of(min(tile, part.n_tiles - 1), 0);
            moments[tile][half] = two(p.moments + place);
            squares[tile][half] = two(p.squares + place);
        }
}

// Gradients of weights, and their step.
template <int TILES>
__device__ void update(const Arguments &a, const Layer &layer, const Parameters &p, const Adam &adam,
                       const float *sources, const float *grads) {
#pragma unroll 1
    for (int job = threadIdx.x / 32; job < layer.update_jobs; job += blockDim.x / 32) {
        const Part<TILES> part(job, layer.n_sources, layer.padded_targets);
        // Asked for before the product, needed after it, where there are registers for them.
        float2 moments[TILES][2], squares[TILES][2];
        if (TILES <= 4) load_moments<TILES>(moments, squares, p, part, layer.n_sources);
        float total[TILES][4] = {};
        multiply<UPDATE, TILES>(total, a.n_rows, sources, a.row_stride, grads, a.row_stride, part.row,
                                layer.padded_sources - 1, part.column);
        if (TILES > 4) load_moments<TILES>(moments, squares, p, part, layer.n_sources);
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
            if (tile < part.n_tiles) {
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    const int source = part.row_of(2 * half), target = part.column_of(tile, 0);
                    if (source < layer.n_sources) {
                        const int column = layer.column + source * layer.aligned_targets + target;
                        float2 *weights = reinterpret_cast<float2 *>(p.weights + source * p.stride + target);
                        float2 weight = *weights, moment = moments[tile][half], square = squares[tile][half];
                        adam(weight.x, total[tile][2 * half], moment.x, square.x, column);
                        adam(weight.y, total[tile][2 * half + 1], moment.y, square.y, column + 1);
                        const int place = source * p.moment_stride + target;
                        *weights = weight;
                        *reinterpret_cast<float2 *>(p.moments + place) = moment;
                        *reinterpret_cast<float2 *>(p.squares + place) = square;
                    }
                }
            }
        }
    }
}

// Steps of the biases, from the last thread on: the first ones have most to do with the weights.
__device__ void update_biases(const Arguments &a, const Layer &layer, const Parameters &p, const Adam &adam,
                              const float *grads) {
#pragma unroll 1
    for (int target = blockDim.x - 1 - threadIdx.x; target < layer.n_targets; target += blockDim.x) {
        float total = 0.0f, weight = p.weights[p.bias + target];
        float moment = p.moments[p.moment_bias + target], square = p.squares[p.moment_bias + target];
#pragma unroll 1
        for (int row = 0; row < a.n_rows; row += 4) {
            const float4 rows = *reinterpret_cast<const float4 *>(grads + target * a.row_stride + row);
            total += rows.x + rows.y + (rows.z + rows.w);
        }
        adam(weight, total, moment, square, layer.column + layer.aligned_sources * layer.aligned_targets + target);
        p.weights[p.bias + target] = weight;
        p.moments[p.moment_bias + target] = moment;
        p.squares[p.moment_bias + target] = square;
    }
}

// Copy a layer's weights and biases from global to shared memory, or back; a warp takes a row at a time.
__device__ void copy_weights(const Layer &layer, float *global, float *shared, bool back) {
#pragma unroll 1
    for (int source = threadIdx.x / 32; source <= layer.padded_sources; source += blockDim.x / 32) {
        const bool is_bias = source == layer.padded_sources, inside = is_bias || source < layer.n_sources;
        float *row = global + layer.column + (is_bias ? layer.aligned_sources : source) * layer.aligned_targets;
#pragma unroll 1
        for (int target = threadIdx.x % 32; target < layer.stride; target += 32) {
            float &place = shared[source * layer.stride + target];
            if (inside && target < layer.n_targets) {
                if (back)
                    row[target] = place;
                else
                    place = row[target];
            } else if (!back) {
                place = 0.0f;
            }
        }
    }
}

// Bring the rows of a step into shared memory in the background; each warp from the first one on takes a row at a time.
__device__ void fetch_step(const Arguments &a, const float *x, float *memory, int step, int first_warp) {
    const int n_inputs = a.layers[0].n_sources, start = step * a.batch_size;
    float *inputs = memory + a.inputs + step % 2 * a.input_size;
#pragma unroll 1
    for (int row = (int)threadIdx.x / 32 - first_warp; row < a.batch_size; row += blockDim.x / 32 - first_warp) {
        const float *global = x + (int64)(start + row) * a.x_row;
#pragma unroll 1
        for (int column = threadIdx.x % 32; column < n_inputs; column += 32) {
            float *place = inputs + column * a.row_stride + row;
            if (start + row < a.n_positions) {
                const unsigned shared = (unsigned)__cvta_generic_to_shared(place);
                asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared), "l"(global + column));
            } else {
                *place = 0.0f;
            }
        }
    }
    asm volatile("cp.async.commit_group;");
}

extern "C" __global__ void __launch_bounds__(512) train_networks(const __grid_constant__ Arguments a) {
    extern __shared__ float4 memory_in_fours[];
    float *memory = reinterpret_cast<float *>(memory_in_fours);
    const int64 model = blockIdx.x;
    const int row_stride = a.row_stride, last = a.n_layers - 1;
    float *flat = a.flat + model * a.flat_model;
    float *moment = a.moment + model * a.flat_model, *square = a.square + model * a.flat_model;
    const float *x = a.x + model * a.x_model;
    const int n_steps = min(a.n_steps[model] - a.first_step, a.n_block_steps);

#pragma unroll 1
    for (int l = 0; l < a.n_layers; l++) {
        const Layer &layer = a.layers[l];
        copy_weights(layer, flat, memory + layer.weights, false);
        if (layer.moments >= 0) {
            copy_weights(layer, moment, memory + layer.moments, false);
            copy_weights(layer, square, memory + layer.squares, false);
        }
    }
    const int n_input_numbers = (a.input_size ? 2 : 1) * a.layers[0].padded_sources * row_stride;
#pragma unroll 1
    for (int i = threadIdx.x; i < n_input_numbers; i += blockDim.x) memory[a.inputs + i] = 0.0f;
    __syncthreads();

    Drop drop = {};
    drop.scale = 1.0f;
    if (a.keys) {
        drop.factor = a.jumps[2 * model];
        drop.step = a.jumps[2 * model + 1];
        drop.threshold = a.drop_thresholds[model];
        drop.scale = a.drop_scales[model];
        drop.any = drop.threshold != (int64)(1ull << 63);  // no number lies below the least one
    }
    Adam adam = {a.rest_1, a.beta_2, a.rest_2};
    adam.factors = a.factors;
    adam.is_plain = !(a.l2 || a.l1 || a.decay || a.threshold || a.factors);
    adam.has_threshold = a.threshold;
    adam.l2 = a.l2 ? a.l2[model] : 0.0f;
    adam.l1 = a.l1 ? a.l1[model] : 0.0f;
    adam.decay = a.decay ? a.decay[model] : 0.0f;
    adam.limit = a.threshold ? a.threshold[model] : 0.0f;

    fetch_step(a, x, memory, 0, 0);
#pragma unroll 1
    for (int step = 0; step < n_steps; step++) {
        const int start = step * a.batch_size, n_rows = min(a.batch_size, a.n_positions - start);
        float *inputs = memory + a.inputs + step % 2 * a.input_size;
        asm volatile("cp.async.wait_all;");
        __syncthreads();
        float share = 0.0f;  // of the row whose loss this thread looks at, asked for long before it is needed
        int64 label = 0;
        if (threadIdx.x < n_rows) {
            const int64 position = start + threadIdx.x;
            share = a.shares[model * a.share_model + position];
            if (a.kind == 0)
                label = static_cast<const int64 *>(a.targets)[model * a.target_model + position * a.target_row];
        }
        const float *rates = a.rates + (int64)step * a.rates_step + model;
        adam.scale = rates[0], adam.offset = rates[a.rates_stride], adam.rate = rates[2 * a.rates_stride];
        drop.step = drop.step * 6364136223846793005ull + 1442695040888963407ull;
        drop.factor *= 6364136223846793005ull;

        const float *sources = inputs;
#pragma unroll 1
        for (int l = 0; l < a.n_layers; l++) {
            const Layer &layer = a.layers[l];
            if (drop.any && l < last) drop.key = a.keys[l * a.key_layer + model];
            if (layer.n_forward == 1)
                forward<1>(a, layer, memory, sources, drop, l == last);
            else if (layer.n_forward == 4)
                forward<4>(a, layer, memory, sources, drop, l == last);
            else
                forward<7>(a, layer, memory, sources, drop, l == last);
            sources = memory + layer.states;
            __syncthreads();
        }
        const Layer &top = a.layers[last];
        const int row = threadIdx.x;  // there are more threads than rows
        if (row < n_rows) {
            loss_slope(a, memory + top.states, row, top.n_targets, model, start + row, share, label);
        } else if (row < a.n_rows) {
#pragma unroll 1
            for (int i = 0; i < top.n_targets; i++) memory[top.states + i * row_stride + row] = 0.0f;
        }
        const int n_busy = (a.n_rows + 31) / 32;  // the other warps have time to fetch the next rows
        if (threadIdx.x / 32 >= n_busy && step + 1 < n_steps && a.input_size)
            fetch_step(a, x, memory, step + 1, n_busy);
        __syncthreads();

        const float *grads = memory + top.states;
#pragma unroll 1
        for (int l = last; l >= 0; l--) {
            const Layer &layer = a.layers[l];
            const float *from = l ? memory + a.layers[l - 1].states : inputs;
            // The first ones go to spare memory, the others where the states of the layer above were.
            float *before = memory + (l == last ? a.spare : layer.states);
            if (l) {
                if (layer.n_backward == 4)
                    backward<4>(a, layer, memory, from, grads, before, drop.scale);
                else
                    backward<7>(a, layer, memory, from, grads, before, drop.scale);
                __syncthreads();
            }
            const bool here = layer.moments >= 0;
            const int bias = layer.padded_sources * layer.stride;
            const Parameters p = {memory + layer.weights, here ? memory + layer.moments : moment + layer.column,
                                  here ? memory + layer.squares : square + layer.column, layer.stride,
                                  here ? layer.stride : layer.aligned_targets, bias,
                                  here ? bias : layer.aligned_sources * layer.aligned_targets};
            if (layer.n_update == 1)
                update<1>(a, layer, p, adam, from, grads);
            else if (layer.n_update == 4)
                update<4>(a, layer, p, adam, from, grads);
            else
                update<7>(a, layer, p, adam, from, grads);
            update_biases(a, layer, p, adam, grads);
            grads = before;
            __syncthreads();
        }
        if (step + 1 < n_steps && !a.input_size) fetch_step(a, x, memory, step + 1, 0);
    }

#pragma unroll 1
    for (int l = 0; l < a.n_layers; l++) {
        const Layer &layer = a.layers[l];
        copy_weights(layer, flat, memory + layer.weights, true);
        if (layer.moments >= 0) {
            copy_weights(layer, moment, memory + layer.moments, true);
            copy_weights(layer, square, memory + layer.squares, true);
        }
    }
    if (a.keys && threadIdx.x == 0) {
        a.jumps[2 * model] = drop.factor;
        a.jumps[2 * model + 1] = drop.step;
    }
}
