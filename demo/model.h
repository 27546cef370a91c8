// The network both implementations run: a decoder-only transformer with fixed random weights.
// Everything here is a function of the constants below, so every machine computes the same network.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace smeltr::demo {

inline constexpr uint32_t kDim = 128;
inline constexpr uint32_t kLayers = 12;
inline constexpr uint32_t kHeads = 4;
inline constexpr uint32_t kHeadDim = kDim / kHeads;
inline constexpr uint32_t kHidden = 384;  // Width of the MLP.
inline constexpr uint32_t kVocabulary = 512;
inline constexpr uint32_t kMaxContext = 4096;  // Prompt and generated tokens together.
inline constexpr float kNormEpsilon = 1e-5f;

// Elements [offset, offset + count) of Model::values().
struct Tensor {
  size_t offset = 0;
  size_t count = 0;
};

// Matrices are stored column by column: element (row, column) at column * rows + row.
struct LayerTensors {
  Tensor attention_norm, query, key, value, output;
  Tensor mlp_norm, gate, up, down;
};

class Model {
 public:
  // `context`: positions that the rotation table covers.
  explicit Model(uint32_t context);

  std::span<const float> values() const { return values_; }
  std::span<const float> Values(const Tensor& tensor) const {
    return std::span(values_).subspan(tensor.offset, tensor.count);
  }

  Tensor embedding;  // [token][dim]
  std::array<LayerTensors, kLayers> layers;
  Tensor final_norm;
  Tensor logits;
  Tensor rotation;  // (cosine, sine) of [position][pair of a head]

 private:
  Tensor Add(size_t count);
  Tensor AddRandom(size_t count, float amplitude, float center = 0.0f);
  Tensor AddMatrix(size_t rows, size_t columns);

  std::vector<float> values_;
  uint64_t random_state_;
};

enum class Sampling { kGreedy, kSeeded };

// One sequence to decode.
struct Request {
  uint32_t prompt_length = 8;  // At least 1.
  uint32_t steps = 0;          // Tokens to generate.
  uint64_t seed = 0;           // Of the prompt, and of the sampling thresholds.
  Sampling sampling = Sampling::kGreedy;

  uint32_t Context() const { return prompt_length + steps; }
  std::vector<uint32_t> Prompt() const;
  // In [0, 1): seeded sampling takes the token at which the cumulated probability passes it.
  float Threshold(uint32_t step) const;
};

}  // namespace smeltr::demo
