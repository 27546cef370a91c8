// The same network in plain C++: what the GPU's result is checked against.
#pragma once

#include <cstdint>
#include <vector>

#include "model.h"

namespace smeltr::demo {

struct ReferenceResult {
  std::vector<uint32_t> tokens;            // The generated ones.
  std::vector<std::vector<float>> logits;  // Of each step.
  // Over all steps, how close another token came to being chosen: greedy, the smallest lead in logits;
  // seeded, the smallest distance in probability of a threshold to the edges of its token.
  float smallest_margin = 0.0f;
};

ReferenceResult RunReference(const Model& model, const Request& request);

}  // namespace smeltr::demo
