// output[row] = softmax(input[row][0 .. count)), one workgroup a row.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(set = 0, binding = 0) readonly buffer Input { float x[]; };
layout(set = 0, binding = 2) writeonly buffer Output { float result[]; };

shared float partial[64];

void main() {
  uint lane = gl_LocalInvocationID.x;
  uint first = gl_WorkGroupID.x * push.stride;

  float largest = -3.402823e38;
  for (uint i = lane; i < push.count; i += 64) largest = max(largest, x[first + i]);
  partial[lane] = largest;
  barrier();
  for (uint width = 32; width > 0; width >>= 1) {
    if (lane < width) partial[lane] = max(partial[lane], partial[lane + width]);
    barrier();
  }
  largest = partial[0];
  barrier();  // Everyone has read the maximum before the array is used for the sum.

  float sum = 0.0;
  for (uint i = lane; i < push.count; i += 64) sum += exp(x[first + i] - largest);
  partial[lane] = sum;
  barrier();
  for (uint width = 32; width > 0; width >>= 1) {
    if (lane < width) partial[lane] += partial[lane + width];
    barrier();
  }
  float scale = 1.0 / partial[0];
  for (uint i = lane; i < push.count; i += 64) result[first + i] = exp(x[first + i] - largest) * scale;
}
