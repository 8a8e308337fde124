/* What the stand-in's cuDNN reads its graphs from: descriptors, which keep their attributes as bytes, the tensors that
 * they describe, and the tensors' elements. */
#ifndef STANDIN_CUDNN_PARTS_H
#define STANDIN_CUDNN_PARTS_H

#include <cudnn.h>

#include "core/base/dtype.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace standin::cudnn {

struct attribute {
    int64_t n;
    std::vector<char> bytes;
};

struct descriptor {
    cudnnBackendDescriptorType_t type;
    bool is_final;
    std::map<int, attribute> values;
};

/* How many elements an attribute has, 0 where it was not given. */
inline int64_t count(const descriptor &d, int name)
{
    auto found = d.values.find(name);
    return found == d.values.end() ? 0 : found->second.n;
}

/* Element i of an attribute, zero where it was not given. */
template <class T> T get(const descriptor &d, int name, int64_t i = 0)
{
    T result = T();
    auto found = d.values.find(name);
    if (found != d.values.end() && i < found->second.n)
        std::memcpy(&result, found->second.bytes.data() + static_cast<std::size_t>(i) * sizeof result, sizeof result);
    return result;
}

inline void put(descriptor &d, int name, const void *bytes, std::size_t size, int64_t n)
{
    const char *first = static_cast<const char *>(bytes);
    d.values[name] = {n, std::vector<char>(first, first + size * static_cast<std::size_t>(n))};
}

inline const descriptor &part(const descriptor &d, int name, int64_t i = 0)
{
    return *static_cast<const descriptor *>(get<cudnnBackendDescriptor_t>(d, name, i));
}

enum { MOST_DIMS = 5 };

struct tensor {
    int type, ndim;
    int64_t name, shape[MOST_DIMS], stride[MOST_DIMS], alignment, count;
    bool is_virtual;  /* it has no memory of the caller's */
    bool is_by_value; /* its one element lies in memory of the host */
    void *data;
};

inline tensor tensor_of(const descriptor &d)
{
    tensor t = {};
    t.type = get<int>(d, CUDNN_ATTR_TENSOR_DATA_TYPE);
    t.ndim = static_cast<int>(d.values.at(CUDNN_ATTR_TENSOR_DIMENSIONS).n);
    t.name = get<int64_t>(d, CUDNN_ATTR_TENSOR_UNIQUE_ID);
    t.alignment = get<int64_t>(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
    t.is_virtual = get<bool>(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
    t.is_by_value = get<bool>(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
    t.count = 1;
    for (int i = 0; i < t.ndim; i++) {
        t.shape[i] = get<int64_t>(d, CUDNN_ATTR_TENSOR_DIMENSIONS, i);
        t.stride[i] = get<int64_t>(d, CUDNN_ATTR_TENSOR_STRIDES, i);
        t.count *= t.shape[i];
    }
    return t;
}

inline double load(const tensor &t, int64_t at)
{
    switch (t.type) {
    case CUDNN_DATA_DOUBLE: return static_cast<const double *>(t.data)[at];
    case CUDNN_DATA_FLOAT: return static_cast<const float *>(t.data)[at];
    case CUDNN_DATA_INT32: return static_cast<const int32_t *>(t.data)[at];
    case CUDNN_DATA_HALF: return stni_f16_to_f32(static_cast<const uint16_t *>(t.data)[at]);
    default: return stni_bf16_to_f32(static_cast<const uint16_t *>(t.data)[at]);
    }
}

inline void store(const tensor &t, int64_t at, double x)
{
    switch (t.type) {
    case CUDNN_DATA_DOUBLE: static_cast<double *>(t.data)[at] = x; return;
    case CUDNN_DATA_FLOAT: static_cast<float *>(t.data)[at] = static_cast<float>(x); return;
    case CUDNN_DATA_INT32: static_cast<int32_t *>(t.data)[at] = static_cast<int32_t>(x); return;
    case CUDNN_DATA_HALF: static_cast<uint16_t *>(t.data)[at] = stni_f32_to_f16(static_cast<float>(x)); return;
    default: static_cast<uint16_t *>(t.data)[at] = stni_f32_to_bf16(static_cast<float>(x)); return;
    }
}

/* A tensor's name for a text: a letter, where it is one. */
inline std::string word_of(int64_t name)
{
    return name > ' ' && name <= '~' ? std::string{'\'', static_cast<char>(name), '\''} : std::to_string(name);
}

/* Finds a tensor's memory in a variant pack; ends the program where it is not as the graph was told. */
inline void place(const descriptor &pack, tensor &t)
{
    for (int64_t i = 0; i < count(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS); i++)
        if (get<int64_t>(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, i) == t.name)
            t.data = get<void *>(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, i);
    if (t.data && reinterpret_cast<uintptr_t>(t.data) % static_cast<uintptr_t>(t.alignment) == 0)
        return;
    fprintf(stderr, "stand-in: cudnnBackendExecute: tensor %s is absent, or not aligned to %d bytes\n",
            word_of(t.name).c_str(), static_cast<int>(t.alignment));
    abort();
}

}

#endif
