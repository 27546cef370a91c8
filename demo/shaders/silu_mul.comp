// output = silu(gate) * up.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 0) const uint kCount = 1;

layout(set = 0, binding = 0) readonly buffer Gate { float gate[]; };
layout(set = 0, binding = 1) readonly buffer Up { float up[]; };
layout(set = 0, binding = 2) writeonly buffer Output { float result[]; };

void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i >= kCount) return;
  float g = gate[i];
  result[i] = g / (1.0 + exp(-g)) * up[i];
}
