"""Kernels inside kernels: compiled for the linker, not for Python.

numba makes every function executable, with wrappers for callers in Python and C, and links its code
into the functions that call it. Two of three kernels are called by kernels only: here they are
compiled to code for the linker and kept on disk in that form; no machine code is made of them. One
that Python calls nevertheless is compiled again, as a whole.

Built on numba's documented `pipeline_class` (the class of the compiler) and on its classes for
dispatchers, libraries and caches. All of it runs under numba's one lock for compilers.
"""

from typing import Any

from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import JITCodeLibrary, ll
from numba.core.compiler import Compiler, CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher
from numba.core.sigutils import normalize_signature

DYNAMIC = "numba.dynamic.globals"  # addresses in this process: code with them is not kept on disk


class InnerCode:
    """Stands where numba expects what Python calls: an inner kernel has nothing of the kind."""


def _is_inner(result: Any) -> bool:
    return result is not None and isinstance(result.entry_point, InnerCode)


class InnerLibrary(JITCodeLibrary):
    """Code that is linked into others and not run itself."""

    def _finalize_final_module(self) -> None:
        names = [each.name for each in self._final_module.global_variables]
        self._dynamic_globals += [name for name in names if name.startswith(DYNAMIC)]
        self._finalized = True


class NumbaLibrary(InnerLibrary):
    """Code of a function of numba's own that kernels call, such as np.empty."""

    @property
    def codegen(self) -> Any:
        """Numba tells it the constants of a function: there is no machine code to hold them."""
        return self

    def set_env(self, env_name: str, env: Any) -> None:
        """Nothing: `_tell_constants` does it where the code is linked."""


class KernelCompiler(Compiler):
    """Compiles kernels; those that another one calls, which waits meanwhile, for the linker."""

    under_way = 0

    def compile_extra(self, func: Any) -> Any:
        """A kernel for types of arguments that the compiler was made with."""
        codegen, inner = self.state.targetctx.codegen(), KernelCompiler.under_way > 0
        library = InnerLibrary if inner else JITCodeLibrary
        self.state.library = library(codegen, func.__qualname__)
        self.state.library.enable_object_caching()
        KernelCompiler.under_way += 1
        codegen._library_class = NumbaLibrary
        try:
            result = super().compile_extra(func)
        finally:
            KernelCompiler.under_way -= 1
            if not inner:
                del codegen._library_class
        return self._for_the_linker(result) if inner else _tell_constants(result)

    def define_pipelines(self) -> Any:
        """Wrappers: none for C, for Python where it calls the kernel.

        The flags are set here, after numba has put a copy of them where functions of its own look:
        these are compiled once more for other flags.
        """
        flags, inner = self.state.flags, KernelCompiler.under_way > 1
        flags.no_cfunc_wrapper = True
        flags.no_cpython_wrapper = flags.no_compile = inner
        return super().define_pipelines()

    def _for_the_linker(self, result: Any) -> Any:
        result.library.finalize()
        result = result._replace(entry_point=InnerCode())
        self.state.targetctx.insert_user_function(
            result.entry_point, result.fndesc, [result.library]
        )
        return result


def _tell_constants(result: Any) -> Any:
    """Tell machine code the constants of all functions in it, as numba does for each executable."""
    for environment in result._find_referenced_environments():
        result.codegen.set_env(environment.env_name, environment)
    return result


class KernelCacheFormat(CompileResultCacheImpl):
    """What is kept of a kernel on disk: of an inner one its code for the linker."""

    def reduce(self, cres: Any) -> Any:
        """What is written."""
        if not _is_inner(cres):
            return super().reduce(cres)
        cres.fndesc.typemap = cres.fndesc.calltypes = None  # as numba does: they may not pickle
        name, _, code = cres.library.serialize_using_bitcode()
        return name, code, cres.fndesc, cres.environment, cres.signature

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        """The kernel, from what was written."""
        if not KernelCompiler.under_way:
            return super().rebuild(target_context, payload)
        name, code, description, environment, signature = payload
        library = InnerLibrary(target_context.codegen(), name)
        library._final_module = ll.parse_bitcode(code)
        library._finalize_final_module()
        return CompileResult(
            typing_context=target_context.typing_context, target_context=target_context,
            entry_point=InnerCode(), typing_error=None, type_annotation="", signature=signature,
            objectmode=False, lifted=(), fndesc=description, library=library, call_helper=None,
            environment=environment, metadata=None, reload_init=[], referenced_envs=(),
        )  # fmt: skip


class KernelCache(FunctionCache):
    """Kernels on disk; a kernel for Python and the same one for the linker are two."""

    _impl_class = KernelCacheFormat

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return *super()._index_key(sig, codegen), KernelCompiler.under_way > 0


class KernelDispatcher(CPUDispatcher):
    """A kernel, by types of arguments: what numba's decorator makes of a function."""

    def __init__(self, py_func: Any, locals: Any = None, targetoptions: Any = None) -> None:
        super().__init__(py_func, locals, targetoptions, KernelCompiler)

    def enable_caching(self) -> None:
        """Keep the kernel on disk."""
        self._cache = KernelCache(self.py_func)

    def compile(self, sig: Any) -> Any:
        """Load or compile the kernel; once more where Python calls an inner one."""
        with global_compiler_lock:
            types = tuple(normalize_signature(sig)[0])
            if not KernelCompiler.under_way and _is_inner(self.overloads.get(types)):
                del self.overloads[types]
            return super().compile(sig)

    def add_overload(self, cres: Any) -> None:
        """Make the kernel known; to Python only where it can be called."""
        if _is_inner(cres):
            self.overloads[tuple(cres.signature.args)] = cres
        else:
            super().add_overload(cres)
