// tokens[offset] = the token at which the cumulated probability passes `value`. Summed in order by one
// invocation, so that the result does not depend on how a driver splits the work.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(set = 0, binding = 0) readonly buffer Probabilities { float probability[]; };
layout(set = 0, binding = 2) writeonly buffer Tokens { uint tokens[]; };

void main() {
  if (gl_GlobalInvocationID.x != 0) return;
  float sum = 0.0;
  uint token = push.count - 1;
  for (uint i = 0; i < push.count; ++i) {
    sum += probability[i];
    if (sum > push.value) {
      token = i;
      break;
    }
  }
  tokens[push.offset] = token;
}
