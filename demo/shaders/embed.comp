// output = the embedding row of the token at `position`.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 0) const uint kDim = 1;

layout(set = 0, binding = 0) readonly buffer Tokens { uint tokens[]; };
layout(set = 0, binding = 1) readonly buffer Table { float table[]; };
layout(set = 0, binding = 2) writeonly buffer Output { float result[]; };

void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i >= kDim) return;
  result[i] = table[tokens[push.position] * kDim + i];
}
