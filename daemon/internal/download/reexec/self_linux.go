package reexec

// Self is this program, even if its file has been replaced since.
const Self = "/proc/self/exe"
