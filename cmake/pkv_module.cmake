# pkv_module(NAME LEVEL n [LINK target...])
#   The module src/NAME: every .c of the folder. Modules are declared from low to high levels.
#   LINK: third libraries whose headers the module includes.
#
# pkv_library(TARGET OUTPUT name MODULES m... [LINK target...] [USES target])
#   lib<name>, shared (TARGET) and static (TARGET_static), made of modules. src/TARGET.map says
#   what the shared one exports. LINK: third libraries, private. USES: a library of ours below it.

function(pkv_module name)
    cmake_parse_arguments(ARG "" "LEVEL" "LINK" ${ARGN})
    get_property(highest GLOBAL PROPERTY pkv_highest_level)
    if(NOT ARG_LEVEL MATCHES "^[0-9]+$" OR (highest AND ARG_LEVEL LESS highest))
        message(FATAL_ERROR "pkv_module(${name}): LEVEL ${ARG_LEVEL} after ${highest}")
    endif()
    set_property(GLOBAL PROPERTY pkv_highest_level ${ARG_LEVEL})

    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.c)
    add_library(pkv_module_${name} OBJECT ${sources})
    target_include_directories(pkv_module_${name} PRIVATE ${PROJECT_SOURCE_DIR}/include
                               ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(pkv_module_${name} PRIVATE pkv_flags ${ARG_LINK})
endfunction()

function(pkv_library target)
    cmake_parse_arguments(ARG "" "OUTPUT;USES" "MODULES;LINK" ${ARGN})
    set(objects "")
    foreach(module IN LISTS ARG_MODULES)
        list(APPEND objects $<TARGET_OBJECTS:pkv_module_${module}>)
    endforeach()
    string(REGEX REPLACE "^pkv_" "" export_name ${target}) # pkv, model

    add_library(${target} SHARED ${objects})
    add_library(${target}_static STATIC ${objects})
    set(map ${PROJECT_SOURCE_DIR}/src/${target}.map)
    target_link_options(${target} PRIVATE LINKER:--version-script=${map})
    if(NOT PKV_SANITIZE AND NOT PKV_SANITIZE_THREAD AND NOT PKV_FUZZ) # their run time is found in the program
        target_link_options(${target} PRIVATE LINKER:--no-undefined)
    endif()
    set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map} SOVERSION ${PROJECT_VERSION_MAJOR}
                          VERSION ${PROJECT_VERSION})

    foreach(suffix "" _static)
        set(one ${target}${suffix})
        set_target_properties(${one} PROPERTIES OUTPUT_NAME ${ARG_OUTPUT} LINKER_LANGUAGE C
                              EXPORT_NAME ${export_name}${suffix})
        target_include_directories(${one} INTERFACE
            $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
        target_link_libraries(${one} PRIVATE $<BUILD_INTERFACE:pkv_flags> ${ARG_LINK})
        if(ARG_USES)
            target_link_libraries(${one} PUBLIC ${ARG_USES}${suffix})
        endif()
        add_library(pkv::${export_name}${suffix} ALIAS ${one})
    endforeach()
endfunction()
