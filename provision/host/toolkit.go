package host

// Files of the toolkit on hosts have its name, whatever program they are for.
const (
	// Toolkit is that name, for files.
	Toolkit = "urifilter-toolkit"
	// Written begins the comment at the head of a file.
	Written = "Written by the urifilter toolkit"
	// LockPath is where it keeps two runs apart.
	LockPath = "/run/" + Toolkit + ".lock"
)
