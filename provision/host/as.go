package host

// As unwraps hosts that only watch another one until it finds a T: a connection that can
// open tunnels, for example. Wrappers have a method Unwrap() Host.
func As[T any](h Host) (T, bool) {
	for h != nil {
		if t, ok := h.(T); ok {
			return t, true
		}
		wrapper, ok := h.(interface{ Unwrap() Host })
		if !ok {
			break
		}
		h = wrapper.Unwrap()
	}
	var none T
	return none, false
}
