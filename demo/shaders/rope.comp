// Rotates each pair of neighbouring elements of every head by the angles of `position`. The table holds
// cosine and sine for each (position, pair): the sine of a GPU is too coarse to compare across drivers.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 0) const uint kDim = 1;
layout(constant_id = 1) const uint kHeadDim = 1;

layout(set = 0, binding = 0) readonly buffer Input { vec2 x[]; };
layout(set = 0, binding = 1) readonly buffer Table { vec2 rotation[]; };
layout(set = 0, binding = 2) writeonly buffer Output { vec2 result[]; };

void main() {
  uint pair = gl_GlobalInvocationID.x;
  if (pair >= kDim / 2) return;
  vec2 r = rotation[push.position * (kHeadDim / 2) + pair % (kHeadDim / 2)];
  vec2 v = x[pair];
  result[push.offset / 2 + pair] = vec2(v.x * r.x - v.y * r.y, v.x * r.y + v.y * r.x);
}
