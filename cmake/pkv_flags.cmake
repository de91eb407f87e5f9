# pkv_flags: what every file of ours is compiled with; never part of the installed package.
add_library(pkv_flags INTERFACE)
target_compile_features(pkv_flags INTERFACE c_std_11)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

set(pkv_warnings -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wvla -Wcast-align
    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>)
target_compile_options(pkv_flags INTERFACE ${pkv_warnings} $<$<BOOL:${PKV_WERROR}>:-Werror>)

# The libraries export what their map files name; the sources carry no marks for that. Calls inside
# a library may then still be inlined, as if all symbols were hidden.
target_compile_options(pkv_flags INTERFACE -fno-semantic-interposition)

set(pkv_sanitize_flags "")
if(PKV_SANITIZE)
    set(pkv_sanitize_flags -fsanitize=address,undefined -fno-sanitize-recover=all
        -fno-omit-frame-pointer)
    if(CMAKE_C_COMPILER_ID MATCHES "Clang")
        # wrapping of unsigned numbers is defined, but in size arithmetic it is a bug
        list(APPEND pkv_sanitize_flags -fsanitize=integer)
    endif()
endif()
if(PKV_SANITIZE_THREAD)
    list(APPEND pkv_sanitize_flags -fsanitize=thread)
endif()
if(PKV_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "PKV_FUZZ needs clang: its libFuzzer drives the targets")
    endif()
    list(APPEND pkv_sanitize_flags -fsanitize=fuzzer-no-link)
endif()
target_compile_options(pkv_flags INTERFACE ${pkv_sanitize_flags})
target_link_options(pkv_flags INTERFACE ${pkv_sanitize_flags})
