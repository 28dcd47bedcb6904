package engine

// TakeLocks takes the locks that every batch takes, and gives them back. It hangs where one of
// them is held for good: a watchdog asks so. It waits for no disk and no Redis that does not
// answer; a restart of the daemon would not bring those back.
func (e *Engine) TakeLocks() {
	for _, f := range e.Filters() {
		f.Stats()
	}
}
