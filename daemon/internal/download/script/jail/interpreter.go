package jail

// Interpreter is a program that a jailed process becomes, with all files that it may read.
type Interpreter struct {
	Path  string   // of the program
	Args  []string // including its name as the first
	Dirs  []string // whose files it may read
	Files []string // that it may read, and the kernel run: the program, its dynamic linker and libraries
}
