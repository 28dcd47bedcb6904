package scriptengine

// self is this program, even if its file has been replaced since.
const self = "/proc/self/exe"
