package scriptengine

// self is this program, also where its file was replaced since.
const self = "/proc/self/exe"
