// output[head][p] = query[head] . key[p][head] / sqrt(head_dim), for each cached position p < count.
// x of the grid walks positions, y heads.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 0) const uint kDim = 1;
layout(constant_id = 1) const uint kHeadDim = 1;

layout(set = 0, binding = 0) readonly buffer Query { float query[]; };
layout(set = 0, binding = 1) readonly buffer KeyCache { float key[]; };
layout(set = 0, binding = 2) writeonly buffer Output { float result[]; };

void main() {
  uint p = gl_GlobalInvocationID.x;
  uint head = gl_WorkGroupID.y;
  if (p >= push.count) return;
  float sum = 0.0;
  for (uint d = 0; d < kHeadDim; ++d) sum += query[head * kHeadDim + d] * key[p * kDim + head * kHeadDim + d];
  result[head * push.stride + p] = sum * inversesqrt(float(kHeadDim));
}
