// Holds a precompiled header that other targets reuse: see LevinRoom.cmake.
