package systemd

// Urifilter describes the filter. It is defined here because both the daemon, which registers
// itself, and the toolkit, which predicts what that will change, use it.
func Urifilter() Program {
	return Program{
		Name: "urifilter", Does: "remembers which items have been seen", Documentation: "https://github.com/cr-clawer/urifilter",
		Job: &Job{Name: "writeback", Does: "write the bit-maps back to the archive", Args: []string{"bitmap", "update"}},
	}
}

// Uridownloader is the downloader: all roles in one process, or some of them.
func Uridownloader() Program {
	return Program{
		Daemons: []string{"serve", "master --dispatch", "worker", "master", "dispatch"},
		Name:    "uridownloader", Does: "downloads what is new, once", Documentation: "https://github.com/cr-clawer/urifilter", Jails: true,
	}
}
