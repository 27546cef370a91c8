#include "model.h"

#include <cmath>

namespace smeltr::demo {
namespace {

constexpr uint64_t kWeightSeed = 0x5EED0F5E17ULL;
// Offsets of storage buffer ranges must be multiples of up to 256 bytes (Vulkan's largest permitted minimum).
constexpr size_t kTensorAlignment = 256 / sizeof(float);

// splitmix64.
uint64_t NextRandom(uint64_t& state) {
  state += 0x9E3779B97F4A7C15ULL;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

// In [0, 1), a multiple of 2^-24: exact as float.
float NextUnit(uint64_t& state) { return static_cast<float>(NextRandom(state) >> 40) * 0x1p-24f; }

}  // namespace

Model::Model(uint32_t context) : random_state_(kWeightSeed) {
  embedding = AddRandom(size_t{kVocabulary} * kDim, 1.0f);
  for (LayerTensors& layer : layers) {
    layer.attention_norm = AddRandom(kDim, 0.1f, 1.0f);
    layer.query = AddMatrix(kDim, kDim);
    layer.key = AddMatrix(kDim, kDim);
    layer.value = AddMatrix(kDim, kDim);
    layer.output = AddMatrix(kDim, kDim);
    layer.mlp_norm = AddRandom(kDim, 0.1f, 1.0f);
    layer.gate = AddMatrix(kHidden, kDim);
    layer.up = AddMatrix(kHidden, kDim);
    layer.down = AddMatrix(kDim, kHidden);
  }
  final_norm = AddRandom(kDim, 0.1f, 1.0f);
  logits = AddMatrix(kVocabulary, kDim);

  constexpr uint32_t kPairs = kHeadDim / 2;
  rotation = Add(size_t{context} * kPairs * 2);
  float* out = values_.data() + rotation.offset;
  for (uint32_t position = 0; position < context; ++position) {
    for (uint32_t pair = 0; pair < kPairs; ++pair) {
      const double angle = position * std::pow(10000.0, -static_cast<double>(pair) / kPairs);
      *out++ = static_cast<float>(std::cos(angle));
      *out++ = static_cast<float>(std::sin(angle));
    }
  }
}

Tensor Model::Add(size_t count) {
  const size_t offset = (values_.size() + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
  values_.resize(offset + count);
  return {offset, count};
}

Tensor Model::AddRandom(size_t count, float amplitude, float center) {
  const Tensor tensor = Add(count);
  for (size_t i = 0; i < count; ++i) {
    values_[tensor.offset + i] = center + amplitude * (2.0f * NextUnit(random_state_) - 1.0f);
  }
  return tensor;
}

// Uniform with variance 1 / columns, so that a product keeps the scale of its input.
Tensor Model::AddMatrix(size_t rows, size_t columns) {
  return AddRandom(rows * columns, std::sqrt(3.0f / static_cast<float>(columns)));
}

std::vector<uint32_t> Request::Prompt() const {
  uint64_t state = seed;
  std::vector<uint32_t> prompt(prompt_length);
  for (uint32_t& token : prompt) token = static_cast<uint32_t>(NextRandom(state) % kVocabulary);
  return prompt;
}

float Request::Threshold(uint32_t step) const {
  uint64_t state = ~seed + step * uint64_t{0xD1B54A32D192ED03};
  return NextUnit(state);
}

}  // namespace smeltr::demo
