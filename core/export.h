#pragma once

/// Marks a class or function of the public headers: programs and plug-ins find it in liblevin.so. All else stays inside, where
/// it can change from one version to the next (-fvisibility=hidden). On a class it covers all of its members, its vtable and
/// its typeinfo, so that casts and exceptions work from one library to another.
#define LEVIN_API __attribute__((visibility("default")))
