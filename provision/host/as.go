package host

// As finds, behind wrappers that only watch a host, what can do more than a Host: a
// connection that opens tunnels, for one. Wrappers have a method Unwrap() Host.
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
