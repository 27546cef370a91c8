// output[offset + row] = sum over column of weight[column][row] * input[column]: one row an invocation.
// The weight is stored column by column so that neighbouring invocations read neighbouring words.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 0) const uint kRows = 1;
layout(constant_id = 1) const uint kColumns = 1;

layout(set = 0, binding = 0) readonly buffer Input { float x[]; };
layout(set = 0, binding = 1) readonly buffer Weight { float weight[]; };
layout(set = 0, binding = 2) writeonly buffer Output { float result[]; };

void main() {
  uint row = gl_GlobalInvocationID.x;
  if (row >= kRows) return;
  float sum = 0.0;
  for (uint column = 0; column < kColumns; ++column) sum += weight[column * kRows + row] * x[column];
  result[push.offset + row] = sum;
}
