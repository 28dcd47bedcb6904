package systemd

// Urifilter is what units say of the filter. It stands here, where the daemon, which
// registers itself, and the toolkit, which foretells what that will change, both look.
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
