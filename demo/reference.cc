#include "reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

namespace smeltr::demo {
namespace {

using Values = std::vector<float>;

Values RmsNorm(std::span<const float> x, std::span<const float> weight) {
  float sum = 0.0f;
  for (const float v : x) sum += v * v;
  const float scale = 1.0f / std::sqrt(sum / static_cast<float>(x.size()) + kNormEpsilon);
  Values result(x.size());
  for (size_t i = 0; i < x.size(); ++i) result[i] = x[i] * scale * weight[i];
  return result;
}

Values Multiply(std::span<const float> weight, std::span<const float> x) {
  const size_t rows = weight.size() / x.size();
  Values result(rows, 0.0f);
  for (size_t column = 0; column < x.size(); ++column) {
    const std::span<const float> w = weight.subspan(column * rows, rows);
    for (size_t row = 0; row < rows; ++row) result[row] += w[row] * x[column];
  }
  return result;
}

void Rotate(std::span<float> x, std::span<const float> rotation, size_t position) {
  const std::span<const float> angles = rotation.subspan(position * kHeadDim, kHeadDim);
  for (size_t i = 0; i < x.size(); i += 2) {
    const float cosine = angles[i % kHeadDim];
    const float sine = angles[i % kHeadDim + 1];
    const float a = x[i];
    const float b = x[i + 1];
    x[i] = a * cosine - b * sine;
    x[i + 1] = a * sine + b * cosine;
  }
}

void Softmax(std::span<float> x) {
  const float largest = *std::max_element(x.begin(), x.end());
  float sum = 0.0f;
  for (float& v : x) sum += v = std::exp(v - largest);
  for (float& v : x) v /= sum;
}

void AddTo(Values& x, const Values& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

// Decodes one sequence, token by token.
class Decoder {
 public:
  explicit Decoder(const Model& model) : model_(model) {}

  // Runs the layers for the next position.
  void Feed(uint32_t token) {
    const std::span<const float> row = model_.Values(model_.embedding).subspan(size_t{token} * kDim, kDim);
    x_.assign(row.begin(), row.end());
    for (uint32_t i = 0; i < kLayers; ++i) {
      AddTo(x_, Attention(model_.layers[i], caches_[i]));
      AddTo(x_, Mlp(model_.layers[i]));
    }
    ++position_;
  }

  Values Logits() const {
    return Multiply(model_.Values(model_.logits), RmsNorm(x_, model_.Values(model_.final_norm)));
  }

 private:
  struct Cache {
    Values keys, values;  // [position][dim]
  };

  Values Attention(const LayerTensors& layer, Cache& cache) const {
    const Values normed = RmsNorm(x_, model_.Values(layer.attention_norm));
    Values query = Multiply(model_.Values(layer.query), normed);
    Values key = Multiply(model_.Values(layer.key), normed);
    const Values value = Multiply(model_.Values(layer.value), normed);
    Rotate(query, model_.Values(model_.rotation), position_);
    Rotate(key, model_.Values(model_.rotation), position_);
    cache.keys.insert(cache.keys.end(), key.begin(), key.end());
    cache.values.insert(cache.values.end(), value.begin(), value.end());

    Values mixed(kDim, 0.0f);
    for (size_t head = 0; head < kDim; head += kHeadDim) AttendHead(cache, query, head, mixed);
    return Multiply(model_.Values(layer.output), mixed);
  }

  // `head`: its first element in a row.
  void AttendHead(const Cache& cache, const Values& query, size_t head, Values& mixed) const {
    Values scores(position_ + 1, 0.0f);
    for (size_t p = 0; p <= position_; ++p) {
      for (size_t d = 0; d < kHeadDim; ++d) scores[p] += query[head + d] * cache.keys[p * kDim + head + d];
      scores[p] /= std::sqrt(static_cast<float>(kHeadDim));
    }
    Softmax(scores);
    for (size_t p = 0; p <= position_; ++p) {
      for (size_t d = 0; d < kHeadDim; ++d) mixed[head + d] += scores[p] * cache.values[p * kDim + head + d];
    }
  }

  Values Mlp(const LayerTensors& layer) const {
    const Values normed = RmsNorm(x_, model_.Values(layer.mlp_norm));
    Values gate = Multiply(model_.Values(layer.gate), normed);
    const Values up = Multiply(model_.Values(layer.up), normed);
    for (size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
    return Multiply(model_.Values(layer.down), gate);
  }

  const Model& model_;
  std::array<Cache, kLayers> caches_;
  Values x_;
  size_t position_ = 0;
};

struct Choice {
  uint32_t token = 0;
  float margin = 0.0f;
};

Choice ChooseGreedy(std::span<const float> logits) {
  const auto best = std::max_element(logits.begin(), logits.end());
  float second = -std::numeric_limits<float>::infinity();
  for (auto it = logits.begin(); it != logits.end(); ++it) {
    if (it != best) second = std::max(second, *it);
  }
  return {static_cast<uint32_t>(best - logits.begin()), *best - second};
}

Choice ChooseSeeded(std::span<const float> logits, float threshold) {
  Values probabilities(logits.begin(), logits.end());
  Softmax(probabilities);
  float sum = 0.0f;
  for (uint32_t token = 0; token < probabilities.size(); ++token) {
    const float before = sum;
    sum += probabilities[token];
    if (sum > threshold) return {token, std::min(threshold - before, sum - threshold)};
  }
  return {kVocabulary - 1, threshold - sum};
}

}  // namespace

ReferenceResult RunReference(const Model& model, const Request& request) {
  ReferenceResult result;
  result.smallest_margin = std::numeric_limits<float>::infinity();
  Decoder decoder(model);
  for (const uint32_t token : request.Prompt()) decoder.Feed(token);
  for (uint32_t step = 0; step < request.steps; ++step) {
    if (step > 0) decoder.Feed(result.tokens.back());
    result.logits.push_back(decoder.Logits());
    const Choice choice = request.sampling == Sampling::kGreedy
                              ? ChooseGreedy(result.logits.back())
                              : ChooseSeeded(result.logits.back(), request.Threshold(step));
    result.tokens.push_back(choice.token);
    result.smallest_margin = std::min(result.smallest_margin, choice.margin);
  }
  return result;
}

}  // namespace smeltr::demo
