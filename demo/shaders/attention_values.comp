// output[head][d] = sum over cached position p of weight[head][p] * value[p][head][d].
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 0) const uint kDim = 1;
layout(constant_id = 1) const uint kHeadDim = 1;

layout(set = 0, binding = 0) readonly buffer Weights { float weight[]; };
layout(set = 0, binding = 1) readonly buffer ValueCache { float value[]; };
layout(set = 0, binding = 2) writeonly buffer Output { float result[]; };

void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i >= kDim) return;
  uint head = i / kHeadDim;
  float sum = 0.0;
  for (uint p = 0; p < push.count; ++p) sum += weight[head * push.stride + p] * value[p * kDim + i];
  result[i] = sum;
}
