// output += input.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 0) const uint kCount = 1;

layout(set = 0, binding = 0) readonly buffer Input { float x[]; };
layout(set = 0, binding = 2) buffer Output { float result[]; };

void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < kCount) result[i] += x[i];
}
