package engine

// TakeLocks takes the locks that every batch takes, and releases them. It hangs if one of them is
// held forever; a watchdog uses this. It does not wait for a disk or Redis that fails to answer:
// a restart of the daemon would not repair those.
func (e *Engine) TakeLocks() {
	for _, f := range e.Filters() {
		f.Stats()
	}
}
