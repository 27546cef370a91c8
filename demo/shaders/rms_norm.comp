// output = input / rms(input) * weight, one workgroup.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 0) const uint kDim = 1;
layout(constant_id = 1) const float kEpsilon = 0.0;

layout(set = 0, binding = 0) readonly buffer Input { float x[]; };
layout(set = 0, binding = 1) readonly buffer Weight { float weight[]; };
layout(set = 0, binding = 2) writeonly buffer Output { float result[]; };

shared float partial[64];

void main() {
  uint lane = gl_LocalInvocationID.x;
  float sum = 0.0;
  for (uint i = lane; i < kDim; i += 64) sum += x[i] * x[i];
  partial[lane] = sum;
  barrier();
  for (uint width = 32; width > 0; width >>= 1) {
    if (lane < width) partial[lane] += partial[lane + width];
    barrier();
  }
  float scale = inversesqrt(partial[0] / float(kDim) + kEpsilon);
  for (uint i = lane; i < kDim; i += 64) result[i] = x[i] * scale * weight[i];
}
